"""The cause of a failed request to Prefect's API, as a clause for messages."""

import httpx

SLOW_SERVER = (
    "the server is running but responding slowly: ensure that it and its database "
    "have sufficient CPU resources"
)
"""The diagnosis and the remedy where a server accepts a connection and gives no answer in time."""


def why_failed(error: httpx.TransportError | httpx.HTTPStatusError) -> str:
    """The cause of a failure: no connection, no answer in time, a status, a broken connection.

    A server without processor time accepts connections and does not answer; a server that is down
    refuses them.

    Returns:
        A clause without a subject, such as `no answer within 60 s`.
    """
    match error:
        case httpx.HTTPStatusError():
            return f"HTTP status {error.response.status_code}"
        case httpx.ConnectTimeout():
            return f"no connection{_within(error, 'connect')}"
        case httpx.ConnectError():
            return f"connection failed ({str(error) or type(error).__name__})"
        case httpx.ReadTimeout():
            return f"no answer{_within(error, 'read')}"
        case httpx.TimeoutException():  # of the pool of connections, or while it was written
            return f"the request timed out ({type(error).__name__})"
    return f"the connection was interrupted ({str(error) or type(error).__name__})"


def is_slow_server(error: Exception) -> bool:
    """Did the server accept the connection, and give no answer in time?"""
    return isinstance(error, httpx.ReadTimeout)


def _within(error: httpx.TransportError, part: str) -> str:
    try:
        limit_s = error.request.extensions["timeout"][part]
    except (RuntimeError, KeyError):  # the request is unknown, or has no limit
        limit_s = None
    return " in time" if limit_s is None else f" within {limit_s:g} s"
