"""Stores to test against: a folder, and a bucket of a real S3 server on this machine."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from gpu_core.adapters.checkpoint_store import CheckpointStore, open_store

BUCKET = "checkpoints"


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """The address of an S3 server on a free port."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3_uri(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A prefix of its own in a bucket, with the settings that boto3 finds by itself."""
    import boto3

    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


@pytest.fixture(params=["folder", "s3"])
def store_uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store: every test that asks for it runs on each kind."""
    if request.param == "folder":
        return str(tmp_path / "store")
    return str(request.getfixturevalue("s3_uri"))


@pytest.fixture
def store(store_uri: str) -> CheckpointStore:
    """An empty store."""
    return open_store(store_uri)


@pytest.fixture
def reopen(store_uri: str) -> Callable[[], CheckpointStore]:
    """Open the same store again, as another process does."""
    return lambda: open_store(store_uri)
