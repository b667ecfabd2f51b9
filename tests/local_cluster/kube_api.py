"""A small client of the Kubernetes API, on the standard library."""

import json
import ssl
from collections import deque
from collections.abc import Iterator
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_TIMEOUT_S = 60
_UNREACHED = 0


class ApiError(Exception):
    """The API server refused a request; `status` is HTTP's, or 0: it could not be reached."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    """The API server that a kubeconfig written by `up.py` names; threads may share it."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._address = urlsplit(cluster["server"])
        self._token = config["users"][0]["user"]["token"]
        self._tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self._idle: deque[HTTPSConnection] = deque()

    def close(self) -> None:
        """Close what is open; no request is under way."""
        while self._idle:
            self._idle.pop().close()

    def get(self, path: str) -> Json:
        """What is at this path?"""
        return self.request("GET", path)

    def create(self, path: str, body: Json) -> Json:
        """Create an object in the collection at this path."""
        return self.request("POST", path, body)

    def patch(self, path: str, body: Json, kind: str = STRATEGIC_PATCH) -> Json:
        """Change the object at this path."""
        return self.request("PATCH", path, body, kind)

    def delete(self, path: str, options: Json | None = None) -> Json:
        """Delete the object, or the collection, at this path."""
        return self.request("DELETE", path, options)

    def request(
        self, method: str, path: str, body: Json | None = None, kind: str = "application/json"
    ) -> Json:
        """Send one request; the answer, decoded.

        Raises:
            ApiError: The API server refused it, or could not be reached twice.
        """
        status, content = self._send(method, path, body, kind)
        if status == _UNREACHED:  # it closes idle connections: again on a fresh one
            status, content = self._send(method, path, body, kind)
        if not 200 <= status < 300:
            raise ApiError(status, content)
        return json.loads(content) if content.startswith("{") else {}

    def watch(self, path: str, resource_version: str) -> Iterator[Json]:
        """Which events come after this version? Ends when the server ends it or says "gone"."""
        connection = self._connect(timeout_s=None)
        try:
            separator = "&" if "?" in path else "?"
            query = f"{separator}watch=1&resourceVersion={resource_version}&timeoutSeconds=300"
            connection.request("GET", path + query, headers=self._headers())
            for line in connection.getresponse():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event
        except (OSError, HTTPException):
            return
        finally:
            connection.close()

    def _send(self, method: str, path: str, body: Json | None, kind: str) -> tuple[int, str]:
        """Send it on an idle connection: HTTP's status, or `_UNREACHED`, and the answer."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect(_TIMEOUT_S)
        data = None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, data, self._headers(kind))
            answer = connection.getresponse()
            status, content = answer.status, answer.read().decode()
        except (OSError, HTTPException) as error:
            connection.close()
            return _UNREACHED, repr(error)
        self._idle.append(connection)
        return status, content

    def _connect(self, timeout_s: float | None) -> HTTPSConnection:
        return HTTPSConnection(
            self._address.hostname or "", self._address.port, timeout=timeout_s, context=self._tls
        )

    def _headers(self, kind: str = "application/json") -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
