"""Reads EC2's termination notices for an instance (instance metadata service, version 2).

`spot/instance-action` appears two minutes before a spot instance is stopped or terminated, with
best effort; `events/recommendations/rebalance` may come earlier, or at the same time (EC2 user
guide, "Spot Instance interruption notices" and "rebalance recommendations", 2026).
"""

import json
from datetime import datetime, timedelta
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from gpu_core.adapters.files.run_files import Notice
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import require_aware

ENDPOINT = "http://169.254.169.254"

_WARNING = timedelta(minutes=2)
_TOKEN_TTL_S = 21_600
_TIMEOUT_S = 1.0
_UNAUTHORIZED, _NOT_FOUND, _OK = 401, 404, 200


class InstanceMetadata:
    """The metadata service of this instance.

    Args:
        endpoint: Where it is, as `http://host[:port]`.

    Raises:
        InvalidInput: The endpoint is no such address (field `instance_metadata_url`).
    """

    def __init__(self, endpoint: str = ENDPOINT) -> None:
        address = urlsplit(endpoint)
        if address.scheme != "http" or not address.hostname:
            raise InvalidInput(
                "instance_metadata_url", "is no address", got=endpoint, allowed="http://host[:port]"
            )
        self._host = address.hostname
        self._port = address.port or 80
        self._token: str | None = None

    def notice(self) -> Notice | None:
        """Will this instance be taken away? None: nothing is known of it.

        Raises:
            OSError: There is no such service here, it did not answer within a second, or what it
                answered is not what AWS documents.
        """
        try:
            action = self._read("spot/instance-action")
            if action is not None:
                return _interruption(action)
            rebalance = self._read("events/recommendations/rebalance")
            return None if rebalance is None else _recommendation(rebalance)
        except (ValueError, TypeError, KeyError, HTTPException, InvalidInput) as error:
            raise OSError(
                f"unexpected response from the instance metadata service: {error!r}"
            ) from error

    def _read(self, name: str) -> str | None:
        path = f"/latest/meta-data/{name}"
        status, text = self._ask("GET", path)
        if status == _UNAUTHORIZED:  # no token yet, or it has expired
            self._token = self._new_token()
            status, text = self._ask("GET", path)
        if status == _NOT_FOUND:
            return None
        if status != _OK:
            raise OSError(f"the instance metadata service returned status {status} for {path}")
        return text

    def _new_token(self) -> str:
        status, text = self._ask("PUT", "/latest/api/token")
        if status != _OK:
            raise OSError(
                f"the instance metadata service returned status {status} instead of a token"
            )
        return text

    def _ask(self, method: str, path: str) -> tuple[int, str]:
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_TTL_S)}
        if method == "GET":
            headers = {"X-aws-ec2-metadata-token": self._token or ""}
        connection = HTTPConnection(self._host, self._port, timeout=_TIMEOUT_S)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


def _interruption(text: str) -> Notice:
    fields = json.loads(text)
    deadline_at = require_aware(datetime.fromisoformat(fields["time"]), "time")
    return Notice(
        reason="Interrupted",
        message=f"EC2 will {fields['action']} this instance at {fields['time']}",
        # The service says only the end; the same notice must look the same at every poll.
        requested_at=deadline_at - _WARNING,
        deadline_at=deadline_at,
    )


def _recommendation(text: str) -> Notice:
    noticed_at = require_aware(datetime.fromisoformat(json.loads(text)["noticeTime"]), "noticeTime")
    return Notice(
        reason="RebalanceRecommended",
        message="EC2 expects to interrupt this spot instance",
        requested_at=noticed_at,
        # Not before two minutes have passed, and maybe never.
        deadline_at=noticed_at + _WARNING,
    )
