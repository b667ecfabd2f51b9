"""The address of Prefect's API: its form, and the errors for one at which no API answers."""

import re
from urllib.parse import urlsplit

from gpu_core.decisions.model.errors import InvalidInput

NAME = "PREFECT_API_URL"
"""The setting that names Prefect's API."""

EXAMPLE = "http://127.0.0.1:4200/api"

_ALLOWED = f"http:// or https://, a host, a port from 1 to 65535 and the path, such as {EXAMPLE}"
_SCHEMES = ("http", "https")
# What people leave out: `localhost:4200`, `prefect.example/api`.
_HOST_AND_PORT = re.compile(r"(?:[\w-]+\.)*[\w-]+(?::\d{1,5})?(?:/\S*)?")


def check_api_address(address: str | None) -> str:
    """The address, unless its form is wrong. Nothing is asked of it.

    Args:
        address: As the setting has it; None: it is not set.

    Raises:
        InvalidInput: It is not set, or no address.
    """
    if address is None or not address.strip():
        raise InvalidInput(
            NAME,
            "is not set",
            allowed=_ALLOWED,
            remedy="to start a server, run `prefect server start` in another terminal, then run "
            f"`prefect config set {NAME}={EXAMPLE}`",
        )
    problem = _problem(address)
    if problem is not None:
        meant = _with_scheme(address)
        raise InvalidInput(
            NAME,
            problem,
            got=address,
            allowed=_ALLOWED,
            nearest=meant,
            remedy=f"run `prefect config set {NAME}={meant or EXAMPLE}`",
        )
    return address


def unreachable(address: str, why: str) -> InvalidInput:
    """The error for an address that takes no connection.

    Args:
        address: As the setting has it.
        why: The cause, as a clause: `no connection within 60 s`.
    """
    if address.startswith("https:") and "WRONG_VERSION_NUMBER" in why.upper():
        return InvalidInput(
            NAME,
            "does not support TLS",
            got=address,
            nearest=f"http{address.removeprefix('https')}",
        )
    if "CERTIFICATE_VERIFY_FAILED" in why.upper():
        return InvalidInput(
            NAME,
            "returned a certificate that could not be verified",
            got=address,
            remedy="please set SSL_CERT_FILE to the path of the CA certificate",
        )
    return InvalidInput(
        NAME,
        f"cannot be reached: {why}",
        got=address,
        remedy="please start the server with `prefect server start` or change the address with "
        f"`prefect config set {NAME}=...`",
    )


def no_api(address: str) -> InvalidInput:
    """The error for an address at which another server than Prefect's answers."""
    is_short = not urlsplit(address).path.strip("/")
    return InvalidInput(
        NAME,
        "is not the address of a Prefect API",
        got=address,
        allowed=_ALLOWED,
        nearest=f"{address.rstrip('/')}/api" if is_short else None,
    )


def _problem(address: str) -> str | None:
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return "contains an invalid host or port"
    if parts.scheme not in _SCHEMES:
        return "must start with http:// or https://"
    if not parts.hostname:
        return "does not contain a host"
    if port == 0:
        return "contains an invalid port"
    return "must not contain spaces" if re.search(r"\s", address) else None


def _with_scheme(address: str) -> str | None:
    """The address that was probably meant; None: it cannot be seen."""
    if "://" in address or _HOST_AND_PORT.fullmatch(address) is None:
        return None
    host, _, path = address.partition("/")
    if ":" not in host and "." not in host and host != "localhost":
        return None
    return f"http://{host}/{path or 'api'}"
