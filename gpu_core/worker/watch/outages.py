"""The outages of Prefect's API and full disks, as this worker observed them."""

import json
import logging
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import anyio
import httpx
from prefect.client.orchestration import PrefectClient

from gpu_core.adapters.files.atomic_file import make_folder, replace_file
from gpu_core.adapters.prefect.request_errors import why_failed
from gpu_core.decisions.attempts.excused_ends import Outage, Part, seen_away
from gpu_core.decisions.model.errors import sentences
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.operations.throttle import LastSaid, Throttle
from gpu_core.worker.prefect.repeated_requests import UNAWAITED, awaiting_return

_log = logging.getLogger("prefect.gpu.outages")

_FAILS: dict[Part, str] = {
    "api": "Prefect's API is unavailable",
    "disk": "The disk is full",
}
_WORKS: dict[Part, str] = {
    "api": "The Prefect API is available again",
    "disk": "Disk space is available again",
}

_POLL_S = 1.0
_ANSWER_S = 5.0
_STOOD_STILL_S = 3 * _ANSWER_S

# Less than this and a run cannot write the report of its end.
_LEAST_FREE_BYTES = 64 * 1024

# How much of an outage a killed worker may leave unknown to the next one.
_SAVE_S = 5.0


class OutageWatch:
    """Polls the platform each second, and remembers when it did not work.

    Args:
        client: Prefect's client.
        path: Where outages are kept for the next worker.
        disk: The folder whose disk attempts write to; None: they run elsewhere.
        wake: Called when an unavailable part of the platform is available again.
    """

    def __init__(
        self,
        client: PrefectClient,
        path: Path,
        disk: Path | None,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._wake = wake
        self._client = client
        self._path = path
        self._disk = disk
        self._outages = self._saved = _read(path)
        self._away: set[Part] = set()
        self._returned = anyio.Event()
        self._saves = Throttle(_SAVE_S)
        self._write_error = LastSaid()

    @property
    def seen(self) -> tuple[Outage, ...]:
        """The outages of the last day, as far as this worker or the one before it saw them."""
        return self._outages

    @property
    def is_api_away(self) -> bool:
        """Did the last poll of Prefect's API fail?"""
        return "api" in self._away

    async def watch(self) -> None:
        """Poll until cancelled. Requests that an outage interrupts wait for its end."""
        with awaiting_return(self._client, lambda: self.is_api_away, self.wait_for_return):
            while True:
                try:
                    await self.poll()
                except Exception:
                    _log.warning("Will poll again in %.0f seconds", _POLL_S, exc_info=True)
                await anyio.sleep(_POLL_S)

    async def wait_for_return(self) -> None:
        """Wait until an unavailable part of the platform is available again."""
        await self._returned.wait()

    async def poll(self) -> None:
        """Does the platform work at this moment?"""
        asked_at, asked_at_s = datetime.now(UTC), time.monotonic()
        failure = await self._api_failure()
        # Past its time-outs it is this worker that stood still, and it saw nothing meanwhile.
        is_telling = time.monotonic() - asked_at_s < _STOOD_STILL_S or not failure
        if failure is not None and is_telling:
            self._note("api", failure, asked_at)
        if self._disk is not None:
            is_full = await in_thread(_is_full, self._disk)
            self._note("disk", str(self._disk) if is_full else "", datetime.now(UTC))
        await in_thread(self._save)

    async def _api_failure(self) -> str | None:
        """The reason why the API serves no request; empty: it serves them. None: unknown."""
        http = self._client._client  # with Prefect's TLS settings, proxies and headers
        request = http.build_request("GET", "/ready", timeout=_ANSWER_S, extensions=UNAWAITED)
        try:
            # Prefect's own `send` repeats what failed for a minute, and hides the outage.
            response = await httpx.AsyncClient.send(http, request)
        except httpx.PoolTimeout:
            return None  # this worker has too many requests under way itself
        except httpx.TransportError as error:
            return why_failed(error)
        is_failing = response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR
        return f"HTTP status {response.status_code}" if is_failing else ""

    def _note(self, part: Part, failure: str, since: datetime) -> None:
        is_away = bool(failure)
        if is_away:
            # A question that got no answer was open from then until now.
            self._outages = seen_away(self._outages, part, since)
            self._outages = seen_away(self._outages, part, datetime.now(UTC))
        if is_away != (part in self._away):
            text = _WORKS[part] if not is_away else f"{_FAILS[part]}: {failure}"
            _log.warning("%s", text)
            self._away ^= {part}
            self._saves.reset()
            if not is_away:
                self._returned.set()
                self._returned = anyio.Event()
                self._wake()

    def _save(self) -> None:
        """Keep what was seen for the next worker; without a disk only this one knows it."""
        if self._saved is self._outages or not self._saves.allows(time.monotonic()):
            return
        self._saved = self._outages
        records = [
            {
                "part": outage.part,
                "began_at": outage.began_at.isoformat(),
                "seen_at": outage.seen_at.isoformat(),
            }
            for outage in self._outages
        ]
        try:
            make_folder(self._path.parent)
            replace_file(self._path, json.dumps(records).encode())
        except OSError as error:
            # While the disk is full each try fails.
            level = logging.WARNING if self._write_error.is_news(str(error)) else logging.DEBUG
            _log.log(level, "Failed to write %s: %s", self._path, error)
        else:
            self._write_error.forget()


def _is_full(folder: Path) -> bool:
    """Can nothing more be written in this folder? False also where that is unknown."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    has_inodes = found.f_favail > 0 or found.f_files == 0
    # The rest is kept for root, who still writes there.
    blocks = found.f_bfree if os.geteuid() == 0 else found.f_bavail
    return blocks * found.f_frsize < _LEAST_FREE_BYTES or not has_inodes


def _read(path: Path) -> tuple[Outage, ...]:
    """The outages that an earlier worker saw. Unreadable entries are dropped."""
    try:
        return tuple(
            Outage(
                part=record["part"],
                began_at=datetime.fromisoformat(record["began_at"]),
                seen_at=datetime.fromisoformat(record["seen_at"]),
            )
            for record in json.loads(path.read_bytes())
        )
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = sentences(str(error), "previous outages are ignored")
        _log.warning("Failed to read %s: %s", path, why)
        return ()
