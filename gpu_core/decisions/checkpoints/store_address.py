"""The address of a checkpoint store: a folder, or a prefix of an S3 bucket."""

import re
from typing import Literal
from urllib.parse import unquote

from gpu_core.decisions.model.errors import InvalidInput, nearest_name

_URI = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.IGNORECASE | re.DOTALL)
_ALLOWED = "a folder's path, file:///folder or s3://bucket/prefix"


def parse_store_address(uri: str, field: str) -> tuple[Literal["file", "s3"], str]:
    """Is the store a folder or a bucket, and which one?

    Args:
        uri: A folder's path, `file:///folder` or `s3://bucket/prefix`.
        field: The field's name, for the error.

    Returns:
        `file` with the folder's path, or `s3` with `bucket/prefix`.

    Raises:
        InvalidInput: The address is none of these, or has credentials in it.

    >>> parse_store_address("s3://checkpoints/vision", "checkpoint_uri")
    ('s3', 'checkpoints/vision')
    """
    match = _URI.fullmatch(uri.strip())
    if match is None:
        return "file", _folder(uri, uri.strip(), field)
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        # RFC 8089: file:///path, or file://localhost/path.
        path = unquote(rest.removeprefix("localhost"))
        return "file", _folder(uri, path if path.startswith("/") else "", field)
    if scheme == "s3":
        return "s3", _bucket(uri, rest, field)
    raise InvalidInput(
        field,
        "has an unknown scheme",
        got=uri,
        allowed=_ALLOWED,
        nearest=nearest_name(scheme, ("file", "s3")),
    )


def _folder(uri: str, path: str, field: str) -> str:
    if not path or "\0" in path:
        raise InvalidInput(field, "names no folder", got=uri, allowed=_ALLOWED)
    return path


def _bucket(uri: str, rest: str, field: str) -> str:
    bucket = rest.partition("/")[0]
    if "@" in bucket:
        raise InvalidInput(
            field,
            "has credentials in it",
            got=uri,
            allowed=_ALLOWED,
            remedy="give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment",
        )
    if not bucket:
        raise InvalidInput(field, "names no bucket", got=uri, allowed=_ALLOWED)
    return rest
