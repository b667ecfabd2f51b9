"""Opens the checkpoint store at an address: a folder, or a prefix of an S3 bucket."""

from pathlib import Path

from gpu_core.adapters.checkpoints.store import CheckpointStore, LocalStore, store_error
from gpu_core.decisions.checkpoints.store_address import parse_store_address


def open_store(uri: str) -> CheckpointStore:
    """The store at this address.

    Args:
        uri: A folder's path, `file:///folder` or `s3://bucket/prefix`.

    Raises:
        InvalidInput: It is none of these (field `checkpoint_uri`).
        StoreUnreachable: What it takes to reach it is missing, such as boto3 or an AWS profile.
    """
    scheme, place = parse_store_address(uri, "checkpoint_uri")
    return LocalStore(Path(place)) if scheme == "file" else _s3_store(uri, place)


def _s3_store(uri: str, place: str) -> CheckpointStore:
    bucket, _, prefix = place.partition("/")
    try:
        # Imported here: boto3 takes longer to load than the rest of a run's runtime together.
        from gpu_core.adapters.checkpoints.store_s3 import S3Store

        return S3Store(bucket, prefix.strip("/"))
    except Exception as error:  # any error of boto3's configuration
        raise store_error(uri, error) from error
