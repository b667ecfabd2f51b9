"""A copy of one kind of object, kept up to date by a watch.

List once, then follow the changes from the list's version on. Bookmarks move that version along
while nothing changes; when the server has forgotten it (410 Gone) the list is made anew. What was
deleted meanwhile is reported as deleted, so that no caller waits for a missed event.
"""

import json
import logging
import random
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Generic, TypeVar

import anyio

from gpu_core.adapters.kubernetes.api import Json, KubernetesApi, KubernetesError, error_from_answer

_log = logging.getLogger("prefect.gpu.kubernetes")

# The server ends a watch after this time; the next one continues from its version.
_WATCH_S = 20

SILENCE_S = 25.0
"""A watch that is silent for this long is closed and opened again: where a connection was cut
without notice, a copy is out of date for at most this long."""

_RETRY_S = 0.2
_LONGEST_RETRY_S = 10.0

Kept = TypeVar("Kept")


class _Gone(Exception):
    """The server no longer knows the version that we follow."""


class Reflector(Generic[Kept]):
    """The objects of one list.

    Args:
        api: The cluster.
        path: The list's path, such as `/api/v1/nodes`.
        keep: What to remember of an object; None: nothing, it is passed over.
        on_change: Called with what was kept before and after each change; None before: it is new,
            None after: it is gone. In the event loop; it must not raise.
        query: Label and field selectors.
    """

    def __init__(
        self,
        api: KubernetesApi,
        path: str,
        keep: Callable[[Json], Kept | None],
        on_change: Callable[[Kept | None, Kept | None], None],
        query: dict[str, str] | None = None,
    ) -> None:
        self._api = api
        self._path = path
        self._keep = keep
        self._on_change = on_change
        self._query = query or {}
        self._objects: dict[str, Kept] = {}
        self._synced = anyio.Event()
        self.failure: str | None = None
        """The reason why the copy may be behind; None: it is up to date as far as is known."""

    def __iter__(self) -> Iterator[Kept]:
        return iter(list(self._objects.values()))

    def __len__(self) -> int:
        return len(self._objects)

    async def wait_until_synced(self) -> None:
        """Return when the first list is complete."""
        await self._synced.wait()

    async def run(self) -> None:
        """Follow the list for ever."""
        version: str | None = None
        delay_s = _RETRY_S
        while True:
            try:
                if version is None:
                    version = await self._list()
                    self._synced.set()
                    self.failure = None
                async for followed in self._watch(version):
                    version = followed
                    delay_s = _RETRY_S
                    self.failure = None
                continue
            except _Gone:
                version = None
                continue
            except KubernetesError as error:
                is_new = self.failure != str(error) and not error.is_retryable
                self.failure = str(error)
                # A watch that was cut continues where it was; only a refusal needs a new list, and
                # a person too, most likely: a right is missing.
                if not error.is_retryable:
                    version = None
                level = logging.WARNING if is_new else logging.DEBUG
                _log.log(level, "Failed to watch %s: %s", self._path, error)
            await anyio.sleep(delay_s * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
            delay_s = min(2 * delay_s, _LONGEST_RETRY_S)

    async def _list(self) -> str:
        version = ""
        found: dict[str, Kept] = {}
        try:
            async for items, page_version in self._api.pages(self._path, self._query):
                version = page_version
                for item in items:
                    kept = self._keep(item)
                    if kept is not None:
                        found[item["metadata"]["uid"]] = kept
        except KubernetesError as error:
            if error.status == 410:
                raise _Gone from error
            raise
        before, self._objects = self._objects, found
        for uid in before.keys() - found.keys():
            self._on_change(before[uid], None)
        for uid, kept in found.items():
            if before.get(uid) != kept:
                self._on_change(before.get(uid), kept)
        return version

    async def _watch(self, version: str) -> AsyncIterator[str]:
        query = {
            **self._query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_S),
        }
        async for line in self._api.lines(self._path, query, silence_s=SILENCE_S):
            yield self._apply(_event(line))

    def _apply(self, event: Json) -> str:
        """Follow one event. Returns the version it brings the copy to."""
        kind, item = event["type"], event["object"]
        if kind == "ERROR":
            if item.get("code") == 410:
                raise _Gone
            raise error_from_answer(item.get("code") or 0, json.dumps(item).encode())
        metadata = item["metadata"]
        version: str = metadata["resourceVersion"]
        if kind == "BOOKMARK":
            return version
        uid = metadata["uid"]
        before = self._objects.get(uid)
        if kind == "DELETED":
            # The last state of an object: its deletion is reported with what it had before.
            last = self._keep(item)
            self._objects.pop(uid, None)
            if last is not None and last != before:
                self._on_change(before, last)
            if last is not None or before is not None:
                self._on_change(last or before, None)
            return version
        kept = self._keep(item)
        if kept is None:
            self._objects.pop(uid, None)
        else:
            self._objects[uid] = kept
        if kept != before:
            self._on_change(before, kept)
        return version


def _event(line: bytes) -> Json:
    try:
        event: Json = json.loads(line)
    except ValueError as error:
        raise KubernetesError(0, "BadAnswer", f"failed to parse a watch event: {error}") from error
    return event
