"""Stores to test against: a folder, and a bucket of a real S3 server on this machine."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_core.adapters.checkpoints.open_store import open_store
from gpu_core.adapters.checkpoints.store import CheckpointStore
from gpu_core.testing.memory_store import MemoryStore
from tests.support.s3_server import S3Server

BUCKET = "checkpoints"


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An S3 server on a free port."""
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture
def s3_uri(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """A prefix of its own in a bucket, with the settings that boto3 finds by itself."""
    import boto3

    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


@pytest.fixture(params=["folder", "s3", "memory"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], CheckpointStore]:
    """Open the same store again, as another process does: each test runs on each kind of store."""
    if request.param == "memory":
        store = MemoryStore()
        return lambda: store
    uri = str(tmp_path / "store")
    if request.param == "s3":
        uri = str(request.getfixturevalue("s3_uri"))
    return lambda: open_store(uri)


@pytest.fixture
def store(reopen: Callable[[], CheckpointStore]) -> CheckpointStore:
    """An empty store."""
    return reopen()
