"""Requests to a Kubernetes API server, as JSON.

kubernetes_asyncio finds the cluster and keeps its credentials fresh (kubeconfig, in-cluster tokens,
cloud log-in programs). Its typed models are left out: turning thousands of pods into them costs
more than all the planning.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient

from gpu_core.decisions.model.errors import sentences

Json = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"

_TIMEOUT_S = 30.0
_PAGE = 500
_LONGEST_LINE_BYTES = 4 * 1024**2


class KubernetesError(Exception):
    """The API server refused, or could not be reached."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(status, reason, message)
        self.status = status
        """The HTTP status; 0: there was no answer."""
        self.reason = reason
        """A stable word of the API's, such as `AlreadyExists`."""
        self.message = message

    def __str__(self) -> str:
        return f"{self.message} ({self.reason})" if self.reason else self.message

    @property
    def is_missing(self) -> bool:
        """The object is not there."""
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        """The object exists already, or another request changed it first."""
        return self.status == 409

    @property
    def is_retryable(self) -> bool:
        """May the same request succeed a little later?"""
        return self.status in (0, 408, 429) or self.status >= 500


class KubernetesApi:
    """One cluster.

    Args:
        client: A configured client of kubernetes_asyncio; closed with this object.
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        _read_proxy_once(client)

    @classmethod
    async def connect(
        cls, cluster_config: Json | None = None, context: str | None = None
    ) -> "KubernetesApi":
        """Find the cluster: as given, else the one that this process runs in, else kubeconfig's.

        Args:
            cluster_config: The content of a kubeconfig; None: look for one.
            context: Which of its contexts; None: its current one.

        Raises:
            KubernetesError: There is no cluster to be found.
        """
        try:
            if cluster_config is not None:
                return cls(await config.new_client_from_config_dict(cluster_config, context))
            try:
                config.load_incluster_config()  # type: ignore[no-untyped-call] # has no types
            except config.ConfigException:
                return cls(await config.new_client_from_config(context=context))
            return cls(ApiClient())
        except (config.ConfigException, OSError) as error:
            raise KubernetesError(
                0,
                "NoCluster",
                sentences(
                    f"no Kubernetes cluster configuration found: {error}",
                    "run the worker inside the cluster, set KUBECONFIG or configure a cluster "
                    "block for the pool",
                ),
            ) from error

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def token(self) -> str | None:
        """The token that requests carry; None: they carry none, or a certificate."""
        headers: dict[str, str] = {}
        await self._client.update_params_for_auth(headers, [], ["BearerToken"])
        return headers.get("authorization")

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Json:
        """Read one object.

        Raises:
            KubernetesError: It is not there, or the server refused.
        """
        return await self._json("GET", path, query)

    async def version(self) -> tuple[str, str | None]:
        """The API server's version, such as `v1.34.2`, and its clock, as the header `Date` has it.

        Raises:
            KubernetesError: It does not answer, or is no API server.
        """
        patience = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        response = await self._request("GET", "/version", None, patience=patience)
        try:
            await _raise_for_status(response)
            answer = await response.json(content_type=None)
            return str(answer["gitVersion"]), response.headers.get("Date")
        except (aiohttp.ClientError, TimeoutError, ValueError, TypeError, KeyError) as error:
            raise KubernetesError(0, "BadAnswer", f"GET /version: {_text(error)}") from error
        finally:
            response.close()

    async def find(self, path: str) -> Json | None:
        """Read one object; None: it is not there."""
        try:
            return await self.get(path)
        except KubernetesError as error:
            if error.is_missing:
                return None
            raise

    async def pages(
        self, path: str, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[list[Json], str]]:
        """All objects of a list, page by page, each with the list's resource version."""
        token: str | None = None
        while True:
            asked = {**(query or {}), "limit": str(_PAGE)}
            if token is not None:
                asked["continue"] = token
            page = await self.get(path, asked)
            yield page.get("items") or [], page["metadata"]["resourceVersion"]
            token = page["metadata"].get("continue")
            if not token:
                return

    async def create(self, path: str, body: Json) -> Json:
        """Create an object.

        Raises:
            KubernetesError: With `is_conflict`: it is there already.
        """
        return await self._json("POST", path, body=body)

    async def replace(self, path: str, body: Json) -> Json:
        """Replace an object; a `resourceVersion` in it must still be the newest."""
        return await self._json("PUT", path, body=body)

    async def patch(self, path: str, body: Json) -> Json:
        """Merge these fields into an object (RFC 7386)."""
        return await self._json("PATCH", path, body=body, content_type=MERGE_PATCH)

    async def delete(
        self, path: str, *, grace_s: int | None = None, propagation: str = "Background"
    ) -> bool:
        """Delete an object and what it owns; False: it was not there.

        Args:
            grace_s: Overrides the grace period of pods; None: their own.
            propagation: `Background`, `Foreground` or `Orphan`.
        """
        body: Json = {"propagationPolicy": propagation}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        try:
            await self._json("DELETE", path, body=body)
        except KubernetesError as error:
            if error.is_missing:
                return False
            raise
        return True

    async def lines(
        self,
        path: str,
        query: Mapping[str, str],
        *,
        silence_s: float,
        on_answer: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a streamed answer: a watch, or the log of a pod.

        Of a line longer than 4 MiB only that much comes: a progress bar that never ends its line
        is one, and the API has no object of that size.

        Args:
            silence_s: Give up when nothing comes for so long.
            on_answer: Called when the answer begins.
        """
        patience = aiohttp.ClientTimeout(total=None, sock_connect=_TIMEOUT_S, sock_read=silence_s)
        response = await self._request("GET", path, query, patience=patience)
        try:
            await _raise_for_status(response)
            on_answer()
            async for line in _lines_of(response.content):
                yield line
        except (aiohttp.ClientError, TimeoutError) as error:
            raise KubernetesError(0, "Disconnected", f"{path}: {_text(error)}") from error
        finally:
            response.close()

    async def text(self, path: str, query: Mapping[str, str]) -> str:
        """An answer that is not JSON: the log of a pod.

        Raises:
            KubernetesError: It is not there, the server refused, or the answer was cut.
        """
        patience = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        response = await self._request("GET", path, query, patience=patience)
        try:
            await _raise_for_status(response)
            return await response.text(errors="replace")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise KubernetesError(0, "Disconnected", f"{path}: {_text(error)}") from error
        finally:
            response.close()

    async def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Json | None = None,
        content_type: str = "application/json",
    ) -> Json:
        patience = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        response = await self._request(
            method, path, query, body=body, content_type=content_type, patience=patience
        )
        try:
            await _raise_for_status(response)
            answer: Json = await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise KubernetesError(0, "BadAnswer", f"{method} {path}: {_text(error)}") from error
        finally:
            response.close()
        return answer

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        *,
        patience: aiohttp.ClientTimeout,
        body: Json | None = None,
        content_type: str = "application/json",
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": "application/json", "Content-Type": content_type}
        try:
            # Refreshes a token that has run out.
            await self._client.update_params_for_auth(headers, [], ["BearerToken"])
            response: aiohttp.ClientResponse = await self._client.rest_client.request(
                method,
                f"{self._client.configuration.host}{path}",
                query_params=dict(query) if query else None,
                headers=headers,
                body=body,
                _preload_content=False,
                _request_timeout=patience,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise KubernetesError(
                0, "Unreachable", f"the Kubernetes API is unavailable: {_text(error)}"
            ) from error
        return response


def _read_proxy_once(client: ApiClient) -> None:
    """Read the proxy from the environment now, unless the client is configured with a proxy.

    kubernetes_asyncio lets aiohttp trust the environment. Each request then reads the proxy
    variables and `~/.netrc` again, which takes 6% of a worker that follows 500 containers, and
    aiohttp sends a login from `~/.netrc` to the API server.
    """
    rest, host = client.rest_client, urlsplit(client.configuration.host)
    if rest.proxy is None and not proxy_bypass(host.netloc):
        rest.proxy = getproxies().get(host.scheme)
    session = rest.pool_manager
    rest.pool_manager = aiohttp.ClientSession(connector=session.connector)
    session.detach()


async def _lines_of(content: aiohttp.StreamReader) -> AsyncGenerator[bytes, None]:
    """The lines of a body. aiohttp's own iteration raises for a long one."""
    pending = bytearray()
    async for chunk in content.iter_any():
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            pending += end[: _LONGEST_LINE_BYTES - len(pending)]
            yield bytes(pending) + b"\n"
            pending.clear()
        pending += rest[: _LONGEST_LINE_BYTES - len(pending)]
    if pending:
        yield bytes(pending)


async def _raise_for_status(response: aiohttp.ClientResponse) -> None:
    if response.status < 400:
        return
    content = await response.read()
    raise error_from_answer(response.status, content)


def error_from_answer(status: int, content: bytes) -> KubernetesError:
    """The error that an answer of the API server reports."""
    try:
        answer = json.loads(content)
        return KubernetesError(status, answer.get("reason") or "", answer.get("message") or "")
    except (ValueError, AttributeError):
        return KubernetesError(status, "", content[:300].decode(errors="replace"))


def _text(error: BaseException) -> str:
    """An error's own words, or its name where it has none, as a time-out does."""
    return str(error) or type(error).__name__
