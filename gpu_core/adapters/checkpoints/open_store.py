"""Opens the checkpoint store at an address: a folder, or a prefix of an S3 bucket."""

import re
from pathlib import Path
from urllib.parse import unquote

from gpu_core.adapters.checkpoints.store import CheckpointStore, LocalStore, store_error
from gpu_core.decisions.model.errors import InvalidInput, nearest_name

_URI = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.IGNORECASE | re.DOTALL)
_ALLOWED = "a folder's path, file:///folder or s3://bucket/prefix"


def open_store(uri: str) -> CheckpointStore:
    """The store at this address.

    Args:
        uri: A folder's path, `file:///folder` or `s3://bucket/prefix`.

    Raises:
        InvalidInput: It is none of these (field `checkpoint_uri`).
        StoreUnreachable: What it takes to reach it is missing, such as boto3 or an AWS profile.
    """
    match = _URI.fullmatch(uri.strip())
    if match is None:
        return _local_store(uri, uri.strip())
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        # RFC 8089: file:///path, or file://localhost/path.
        return _local_store(uri, unquote(rest.removeprefix("localhost")), must_be_absolute=True)
    if scheme == "s3":
        return _s3_store(uri, rest)
    raise InvalidInput(
        "checkpoint_uri",
        "has an unknown scheme",
        got=uri,
        allowed=_ALLOWED,
        nearest=nearest_name(scheme, ("file", "s3")),
    )


def _local_store(uri: str, path: str, must_be_absolute: bool = False) -> LocalStore:
    if not path or "\0" in path or (must_be_absolute and not path.startswith("/")):
        raise InvalidInput("checkpoint_uri", "names no folder", got=uri, allowed=_ALLOWED)
    return LocalStore(Path(path))


def _s3_store(uri: str, rest: str) -> CheckpointStore:
    bucket, _, prefix = rest.partition("/")
    if "@" in bucket:
        raise InvalidInput(
            "checkpoint_uri",
            "has credentials in it",
            got=uri,
            allowed=_ALLOWED,
            remedy="give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment",
        )
    if not bucket:
        raise InvalidInput("checkpoint_uri", "names no bucket", got=uri, allowed=_ALLOWED)
    try:
        # Imported here: boto3 takes longer to load than the rest of a run's runtime together.
        from gpu_core.adapters.checkpoints.store_s3 import S3Store

        return S3Store(bucket, prefix.strip("/"))
    except Exception as error:  # any error of boto3's configuration
        raise store_error(uri, error) from error
