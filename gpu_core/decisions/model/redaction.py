"""Texts for people without the secrets that addresses and headers in them carry."""

import re
from base64 import b64encode
from collections.abc import Collection, Iterable
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "***"

# A shorter value, such as the password `gpu`, also stands in words that are no secret.
_SHORTEST_SECRET_CHARS = 6

# Texts may be long, and a worker looks through each line that its runs write: what a pattern has
# looked at it takes, and all repetitions in front of what it looks for are bounded.
# `scheme://user:password@`, with all up to a blank: the last `@` ends the password. It may hold `/`
# and `@` where they are not escaped, as SQLAlchemy allows; `host:5000/path` is a port.
_PASSWORD = re.compile(
    r"(\b[a-z][a-z0-9+.-]{0,30}://[^\s:/?#@]*):(?!\d{1,5}[/?#])(?P<rest>\S*)",
    re.IGNORECASE,
)
# `https://token@`: in addresses of databases a lone user is no secret.
_LONE_TOKEN = re.compile(r"\b((?:https?|s3)://)[^\s:/?#@]+@", re.IGNORECASE)
# `?password=...`, `&X-Amz-Signature=...`, and psycopg's `password='...'`.
_NAMED = re.compile(
    r"\b([\w-]{0,40}(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|signature|credential)"
    r"[\w-]{0,40}=)(?P<value>'[^']*'|\"[^\"]*\"|[^\s&;,'\")]+)",
    re.IGNORECASE,
)
_HEADER = re.compile(r"\b(basic|bearer)(\s+)[\w.~+/=-]{8,}", re.IGNORECASE)


def redact(text: str, secrets: Collection[str] = ()) -> str:
    """A text without its secrets, for people to read.

    Passwords and tokens in addresses, query strings and headers become `***`.

    Args:
        secrets: Values that are secret wherever they stand, also percent-encoded. Those of less
            than 6 characters are hidden in addresses, query strings and headers only.
    """
    for value in sorted(_spellings(secrets), key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    text = _PASSWORD.sub(_without_password, text)
    text = _LONE_TOKEN.sub(rf"\1{HIDDEN}@", text)
    text = _NAMED.sub(rf"\1{HIDDEN}", text)
    return _HEADER.sub(rf"\1\2{HIDDEN}", text)


def _without_password(found: re.Match[str]) -> str:
    _, at, host = found["rest"].rpartition("@")
    return f"{found[1]}:{HIDDEN}@{host}" if at else found[0]


def secrets_in(address: str) -> tuple[str, ...]:
    """The values in an address that are secret, as they are written and decoded."""
    in_front = (found["rest"].rpartition("@")[0] for found in _PASSWORD.finditer(address))
    named = (found["value"].strip("'\"") for found in _NAMED.finditer(address))
    found = (form for value in (*in_front, *named) for form in (value, unquote(value)))
    return tuple(dict.fromkeys(value for value in found if value))


def basic_credentials(username: str, password: str) -> str:
    """The credentials for the header of HTTP's basic authentication (RFC 7617)."""
    return b64encode(f"{username}:{password}".encode()).decode()


def _spellings(secrets: Iterable[str]) -> set[str]:
    long = [value for value in secrets if len(value) >= _SHORTEST_SECRET_CHARS]
    return {form for value in long for form in (value, quote(value, safe=""), quote_plus(value))}
