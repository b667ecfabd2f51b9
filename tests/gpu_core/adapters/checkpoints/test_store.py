"""What every store promises, and which addresses name one."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import ClassVar

import boto3
import pytest

from gpu_core.adapters.checkpoints.open_store import open_store
from gpu_core.adapters.checkpoints.store import AlreadyCommitted, CheckpointStore, LocalStore
from gpu_core.adapters.files.atomic_file import replace_file
from gpu_core.decisions.checkpoints.payload import Payload
from gpu_core.decisions.model.errors import InvalidInput

# The least that S3 takes as a part that is not the last.
PART_BYTES = 5 * 1024 * 1024
# Three parts, with no period that hides a swap.
LARGE = Random(0).randbytes(11_200_000)


class PartRequests:
    """What is sent to S3 in parts."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.refused: set[int] = set()

    def see(self, params: dict[str, int], **_: object) -> None:
        if params["PartNumber"] in self.refused:
            raise ConnectionError("the network is gone")
        self.sent.append(params["PartNumber"])


def in_parts(content: bytes) -> Payload:
    return Payload(content, in_parts_of=PART_BYTES)


@pytest.mark.parametrize(
    "content", [b"", b"state", bytes(range(256)), LARGE], ids=["empty", "small", "binary", "large"]
)
def test_content_is_kept_as_it_is(
    store: CheckpointStore, reopen: Callable[[], CheckpointStore], content: bytes
) -> None:
    """What was put is what another process gets, byte for byte."""
    store.put("run/a.bin", content)
    assert reopen().get("run/a.bin") == content


def test_names_are_those_of_the_folder(store: CheckpointStore) -> None:
    """A folder has the names that were put in it, and not those of a folder with a longer name."""
    assert store.names("run") == ()
    for key in ("run/a.bin", "run/b.json", "run2/c.bin"):
        store.put(key, b"x")
    assert sorted(store.names("run")) == ["a.bin", "b.json"]


def test_more_names_than_one_answer_holds(s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 lists a thousand names at a time, and this server ten; all of them are found."""
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")
    store = open_store(s3_uri)
    want_names = [f"{number:04d}" for number in range(21)]
    for name in want_names:
        store.put(f"run/{name}", b"")
    assert sorted(store.names("run")) == want_names


def test_a_missing_key_differs_from_a_failing_store(store: CheckpointStore) -> None:
    """Only what is certainly not there is reported as missing."""
    with pytest.raises(FileNotFoundError, match="run/none"):
        store.get("run/none")


def test_put_replaces(store: CheckpointStore) -> None:
    """The newest content counts."""
    store.put("run/a", b"old")
    store.put("run/a", b"new")
    assert store.get("run/a") == b"new"


def test_commit_never_replaces(store: CheckpointStore) -> None:
    """A second writer of one name is refused, and what the first wrote stays."""
    store.commit("run/a.json", b"first")
    with pytest.raises(AlreadyCommitted, match=r"run/a\.json was already committed.*rank 0"):
        store.commit("run/a.json", b"second")
    assert store.get("run/a.json") == b"first"


def test_a_repeated_commit_to_s3_is_the_same_commit(s3_uri: str) -> None:
    """boto3 repeats a request whose answer was lost: finding one's own content is success."""
    store = open_store(s3_uri)
    store.commit("run/a.json", b"mine")
    store.commit("run/a.json", b"mine")
    assert store.get("run/a.json") == b"mine"


@pytest.mark.parametrize("content", [b"", b"state", LARGE], ids=["empty", "small", "in parts"])
def test_an_upload_keeps_content_as_it_is(
    store: CheckpointStore, reopen: Callable[[], CheckpointStore], content: bytes
) -> None:
    """Whole, in parts, and read back in pieces."""
    store.upload("run/a.bin", in_parts(content))
    again = reopen()
    assert again.get("run/a.bin") == content
    assert again.size_bytes("run/a.bin") == len(content)
    at = PART_BYTES - 3
    assert again.get_range("run/a.bin", at, 7) == content[at : at + 7]
    assert again.get_range("run/a.bin", 2, 0) == b""


@pytest.mark.parametrize("content", [b"first", LARGE], ids=["small", "in parts"])
def test_an_upload_never_replaces(store: CheckpointStore, content: bytes) -> None:
    """A second writer of one name is refused, and leaves nothing behind."""
    store.upload("run/a.bin", in_parts(content))
    with pytest.raises(AlreadyCommitted):
        store.upload("run/a.bin", in_parts(content[::-1]))
    assert store.get("run/a.bin") == content
    assert store.unfinished("run") == ()


def test_a_repeated_upload_to_s3_is_the_same_upload(s3_uri: str) -> None:
    """If only the answer was lost, the second try finds its own content."""
    store = open_store(s3_uri)
    store.upload("run/a.bin", in_parts(LARGE))
    store.upload("run/a.bin", in_parts(LARGE))
    assert store.unfinished("run") == ()


def test_a_lost_answer_differs_from_a_failure(s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Completing a large upload may take longer than its answer is waited for."""
    from botocore.exceptions import ReadTimeoutError

    store = open_store(s3_uri)
    complete = store._client.complete_multipart_upload
    has_happened = True

    def time_out(**arguments: object) -> None:
        if has_happened:
            complete(**arguments)
        raise ReadTimeoutError(endpoint_url="http://127.0.0.1")

    monkeypatch.setattr(store._client, "complete_multipart_upload", time_out)
    store.upload("run/a.bin", in_parts(LARGE))
    assert (store.get("run/a.bin"), store.unfinished("run")) == (LARGE, ())
    has_happened = False
    with pytest.raises(ReadTimeoutError):
        store.upload("run/b.bin", in_parts(LARGE))
    assert store.unfinished("run") == ("b.bin",)


@pytest.fixture
def part_requests(s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> PartRequests:
    """Every part that travels to S3; those of `refused` do not arrive."""
    requests = PartRequests()
    make_client = boto3.client

    def client(*args: object, **kwargs: object) -> object:
        made = make_client(*args, **kwargs)
        made.meta.events.register("before-parameter-build.s3.UploadPart", requests.see)
        return made

    monkeypatch.setattr(boto3, "client", client)
    return requests


def test_an_upload_goes_on_where_it_stopped(s3_uri: str, part_requests: PartRequests) -> None:
    """Parts that have arrived are kept where they are the same, by whichever process."""
    part_requests.refused = {3}
    with pytest.raises(ConnectionError):
        open_store(s3_uri).upload("run/a.bin", in_parts(LARGE))
    assert open_store(s3_uri).unfinished("run") == ("a.bin",)
    assert open_store(s3_uri).names("run") == ()

    part_requests.refused = set()
    part_requests.sent.clear()
    # Another state: its first part differs, its second is the one that has arrived.
    changed = b"other" + LARGE[5:]
    open_store(s3_uri).upload("run/a.bin", in_parts(changed))
    assert sorted(part_requests.sent) == [1, 3]
    assert open_store(s3_uri).get("run/a.bin") == changed
    assert open_store(s3_uri).unfinished("run") == ()


def test_an_upload_that_no_attempt_finishes_is_aborted(
    s3_uri: str, part_requests: PartRequests
) -> None:
    """Its parts would cost money for ever."""
    part_requests.refused = {2}
    store = open_store(s3_uri)
    with pytest.raises(ConnectionError):
        store.upload("run/a.bin", in_parts(LARGE))
    store.abort("run/a")  # another name, although it begins the same
    assert store.unfinished("run") == ("a.bin",)
    store.abort("run/a.bin")
    store.abort("run/a.bin")
    assert store.unfinished("run") == ()


def test_a_missing_key_has_no_size_and_no_range(store: CheckpointStore) -> None:
    """As with the whole content."""
    for ask in (lambda: store.size_bytes("run/none"), lambda: store.get_range("run/none", 0, 1)):
        with pytest.raises(FileNotFoundError, match="run/none"):
            ask()


def test_delete_forgets(store: CheckpointStore) -> None:
    """What was deleted is gone, and deleting it again is fine."""
    store.put("run/a", b"x")
    store.delete("run/a")
    store.delete("run/a")
    assert store.names("run") == ()


def test_a_missing_bucket_is_an_error(s3_uri: str) -> None:
    """A bucket that does not exist is not an empty one."""
    from botocore.exceptions import ClientError

    store = open_store("s3://no-such-bucket/x")
    with pytest.raises(ClientError, match="NoSuchBucket"):
        store.names("run")


@pytest.mark.parametrize(
    ("address", "want_path"),
    [
        pytest.param("{tmp}/a", "{tmp}/a/run/x", id="a path"),
        pytest.param("file://{tmp}/a", "{tmp}/a/run/x", id="a file address"),
        pytest.param("file://localhost{tmp}/a", "{tmp}/a/run/x", id="with the local host"),
        pytest.param("file://{tmp}/a%20b", "{tmp}/a b/run/x", id="with an escaped space"),
        pytest.param("{tmp}/a%20b", "{tmp}/a%20b/run/x", id="a path has no escapes"),
    ],
)
def test_addresses_of_folders(tmp_path: Path, address: str, want_path: str) -> None:
    """A folder can be written as a path or as a file address."""
    store = open_store(address.format(tmp=tmp_path))
    assert store.uri("run/x") == want_path.format(tmp=tmp_path)


def test_a_relative_path_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flow that changes its working directory saves where it saved before."""
    monkeypatch.chdir(tmp_path)
    store = open_store("ckpt")
    monkeypatch.chdir("/")
    assert store.uri("x") == str(tmp_path / "ckpt" / "x")


@pytest.mark.parametrize("address", ["s3://checkpoints/a/b", "S3://checkpoints/a/b/"])
def test_addresses_of_buckets(s3_uri: str, address: str) -> None:
    """The scheme's case and a closing slash make no difference."""
    assert open_store(address).uri("run/x") == "s3://checkpoints/a/b/run/x"


@pytest.mark.parametrize(
    ("address", "want_error"),
    [
        pytest.param("", "checkpoint_uri names no folder", id="empty"),
        pytest.param("file://", "checkpoint_uri names no folder", id="a file address without path"),
        pytest.param("file://host/x", "checkpoint_uri names no folder", id="another host"),
        pytest.param("s3://", "checkpoint_uri names no bucket", id="no bucket"),
        pytest.param(
            "s3://KEY:hidden@bucket/x",
            r"checkpoint_uri has credentials in it \(got 's3://KEY:\*\*\*@bucket/x'\)",
            id="credentials in the address",
        ),
        pytest.param(
            f"ftp://u:{'hidden' * 50}@host", r"\(got 'ftp://u:\*\*\*@host'\)", id="a long password"
        ),
        pytest.param("ftp://u:hidden@host", r"\(got 'ftp://u:\*\*\*@host'\)", id="a password"),
        pytest.param("s3:///x", "checkpoint_uri names no bucket", id="an empty bucket"),
        pytest.param("gs://b/x", r"has an unknown scheme \(got 'gs://b/x'\)", id="another cloud"),
        pytest.param("s3a://b/x", "Did you mean 's3'", id="Hadoop's spelling"),
    ],
)
def test_what_is_no_address(address: str, want_error: str) -> None:
    """A wrong address is refused with the field, what came and what is allowed."""
    with pytest.raises(InvalidInput, match=want_error) as caught:
        open_store(address)
    assert "s3://bucket/prefix" in str(caught.value)


def test_a_failed_write_changes_nothing(tmp_path: Path) -> None:
    """When the disk refuses, the old content stays and no temporary file is left."""
    path = tmp_path / "a"
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(path, b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_new_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    """The first save of all makes the whole path."""
    LocalStore(tmp_path / "a" / "b").put("run/x", b"1")
    assert (tmp_path / "a" / "b" / "run" / "x").read_bytes() == b"1"


class BusyMetadata(BaseHTTPRequestHandler):
    """An instance's metadata service that does not answer its first question for credentials."""

    questions: ClassVar[list[str]] = []

    def do_PUT(self) -> None:
        self._answer(200, "ticket")

    def do_GET(self) -> None:
        self.questions.append(self.path)
        if len(self.questions) == 1:
            return self._answer(503, "")
        if not self.path.endswith("/role"):
            return self._answer(200, "role")
        keys = {"AccessKeyId": "k", "SecretAccessKey": "s", "Token": "t"}
        return self._answer(200, json.dumps(keys | {"Expiration": "2099-01-01T00:00:00Z"}))

    def log_message(self, *_arguments: object) -> None:
        """Nothing."""

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


def test_a_metadata_service_that_is_busy_is_asked_again(
    s3_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would look as if the run had no credentials, which ends a run for good."""
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    BusyMetadata.questions.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), BusyMetadata) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", address)
        try:
            assert open_store(s3_uri).names("run") == ()
        finally:
            server.shutdown()
            thread.join()
    assert len(BusyMetadata.questions) > 2
