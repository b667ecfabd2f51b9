"""The newest checkpoint that is as it was written wins, whatever is killed or damaged."""

import copy
import errno
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import boto3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gpu_core.adapters.checkpoints.open_store import open_store
from gpu_core.adapters.checkpoints.run_checkpoints import (
    MissingShards,
    RanksDiffer,
    RunCheckpoints,
    StaleAttempt,
)
from gpu_core.adapters.checkpoints.store import (
    AlreadyCommitted,
    CheckpointStore,
    LocalStore,
    StoreMisconfigured,
    StoreUnreachable,
    store_error,
)
from gpu_core.decisions.checkpoints.payload import Payload
from gpu_core.decisions.model.errors import GpuSchedulingError
from tests.support.examples import examples

SAVED_AT = datetime(2026, 3, 1, tzinfo=UTC)
RUN = "3f0c"


def open_attempt(store: CheckpointStore, attempt: int, keep: int = 2) -> RunCheckpoints:
    checkpoints = RunCheckpoints(store, flow_run_id=RUN, attempt=attempt, keep=keep)
    checkpoints.claim()
    return checkpoints


def save(checkpoints: RunCheckpoints, payload: bytes) -> str:
    manifest = checkpoints.save(payload, payload_format="bytes", saved_at=SAVED_AT)
    checkpoints.prune()
    return str(manifest.id)


def newest(checkpoints: RunCheckpoints) -> bytes | None:
    loaded = next(checkpoints.newest_first(), None)
    return None if loaded is None else loaded.payload


def test_a_new_run_has_no_checkpoint(store: CheckpointStore) -> None:
    """The first attempt begins from the start."""
    assert newest(open_attempt(store, 1)) is None


def test_the_next_attempt_continues_from_the_newest(
    store: CheckpointStore, reopen: Callable[[], CheckpointStore]
) -> None:
    """What one attempt saved last is what the next one finds, in another process."""
    first = open_attempt(store, 1)
    assert [save(first, b"a"), save(first, b"b")] == ["000001-00000001", "000001-00000002"]
    second = open_attempt(reopen(), 2)
    assert newest(second) == b"b"
    assert save(second, b"c") == "000002-00000003"
    assert newest(open_attempt(reopen(), 3)) == b"c"


def test_runs_are_apart(store: CheckpointStore) -> None:
    """Another run's checkpoints in the same store are not ours."""
    save(open_attempt(store, 1), b"ours")
    other = RunCheckpoints(store, flow_run_id="other", attempt=1, keep=1)
    assert newest(other) is None


def test_only_the_newest_are_kept(store: CheckpointStore) -> None:
    """Old checkpoints and old claims are deleted as new ones arrive."""
    for attempt in (1, 2, 3):
        checkpoints = open_attempt(store, attempt)
        save(checkpoints, b"x")
        save(checkpoints, b"y")
    assert sorted(store.names(RUN)) == [
        "000003-00000005.bin",
        "000003-00000005.json",
        "000003-00000006.bin",
        "000003-00000006.json",
        "000003.claim",
    ]


def test_an_earlier_attempt_can_no_longer_save(store: CheckpointStore) -> None:
    """A process that was given up is informed, and changes nothing."""
    zombie = open_attempt(store, 1)
    save(zombie, b"old")
    current = open_attempt(store, 2)
    before = sorted(store.names(RUN))
    with pytest.raises(StaleAttempt, match="attempt 1 of run 3f0c was replaced by attempt 2"):
        save(zombie, b"from the grave")
    with pytest.raises(StaleAttempt):
        zombie.claim()
    assert sorted(store.names(RUN)) == before
    assert newest(current) == b"old"


class Troubled:
    """A real store in which one thing goes wrong, as its subclass says."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


class LateClaim(Troubled):
    """The next attempt begins while the payload of this one is on its way."""

    def upload(self, key: str, payload: Payload) -> None:
        self._store.upload(key, payload)
        open_attempt(self._store, 2)


class Simultaneous(Troubled):
    """Two processes of one attempt have both looked before either has written."""

    def names(self, folder: str) -> tuple[str, ...]:
        return ()


class Down(Troubled):
    """The store lists, and then does not answer."""

    def get(self, key: str) -> bytes:
        raise ConnectionError("no route to the store")


class Undeletable(Troubled):
    """Deleting is not allowed."""

    def delete(self, key: str) -> None:
        raise PermissionError("deleting is not allowed")


def test_a_save_that_is_overtaken_commits_nothing(store: CheckpointStore) -> None:
    """If the next attempt begins during the upload, the upload is not committed."""
    save(open_attempt(store, 1), b"before")
    overtaken = RunCheckpoints(LateClaim(store), flow_run_id=RUN, attempt=1, keep=2)
    with pytest.raises(StaleAttempt):
        overtaken.save(b"late", payload_format="bytes", saved_at=SAVED_AT)
    current = open_attempt(store, 2)
    assert newest(current) == b"before"
    save(current, b"after")
    assert "000001-00000002.bin" not in store.names(RUN)


def test_what_a_zombie_committed_in_a_race_never_hides_a_later_attempt(
    store: CheckpointStore,
) -> None:
    """Even a commit that no claim could stop comes before the later attempt in the order."""
    zombie = open_attempt(store, 1)
    for payload in (b"1", b"2", b"3"):
        save(zombie, payload)
    names = {name: store.get(f"{RUN}/{name}") for name in store.names(RUN)}
    save(open_attempt(store, 2), b"later")
    for name, content in names.items():
        store.put(f"{RUN}/{name}", content)
    assert newest(open_attempt(store, 3)) == b"later"


def test_two_processes_of_one_attempt_cannot_both_commit(store: CheckpointStore) -> None:
    """Every rank saving for itself is refused instead of one hiding the other."""
    save(open_attempt(store, 1), b"of rank 0")
    rank_1 = RunCheckpoints(Simultaneous(store), flow_run_id=RUN, attempt=1, keep=2)
    with pytest.raises(AlreadyCommitted, match="rank 0"):
        save(rank_1, b"of rank 1")


@pytest.mark.parametrize(
    ("damage", "want_reason"),
    [
        pytest.param(
            lambda store, at: store.put(at + ".bin", b"Newest"), "checksum mismatch", id="changed"
        ),
        pytest.param(
            lambda store, at: store.put(at + ".bin", b"new"), "3 bytes instead of 6", id="cut short"
        ),
        pytest.param(
            lambda store, at: store.delete(at + ".bin"), "is missing", id="without its payload"
        ),
        pytest.param(
            lambda store, at: store.put(at + ".json", b"{"), "unreadable", id="a broken manifest"
        ),
        pytest.param(
            lambda store, at: store.put(at + ".json", store.get(f"{RUN}/000001-00000001.json")),
            "describes checkpoint 000001-00000001",
            id="another one's manifest",
        ),
    ],
)
def test_a_damaged_checkpoint_is_left_out_and_named(
    store: CheckpointStore,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[CheckpointStore, str], None],
    want_reason: str,
) -> None:
    """The one before it is restored; the log says which was left out, and why."""
    first = open_attempt(store, 1)
    save(first, b"older")
    damage(store, f"{RUN}/{save(first, b'newest')}")
    second = open_attempt(store, 2)
    assert newest(second) == b"older"
    assert "Skipping checkpoint " in caplog.text
    assert "000001-00000002: " in caplog.text
    assert want_reason in caplog.text
    # What is damaged does not push out the good one: that and the new one are kept.
    save(second, b"next")
    assert [c.payload for c in second.newest_first()] == [b"next", b"older"]


@settings(max_examples=examples(150))
@given(st.data())
def test_any_flipped_bit_makes_the_one_before_it_win(data: st.DataObject) -> None:
    """Whichever bit of payload or manifest changes, it is noticed."""
    with TemporaryDirectory() as root:
        checkpoints = open_attempt(LocalStore(Path(root)), 1)
        save(checkpoints, b"older")
        key = save(checkpoints, b"the newest state")
        suffix = data.draw(st.sampled_from([".bin", ".json"]))
        path = Path(root, RUN, key + suffix)
        content = bytearray(path.read_bytes())
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(content)
        assert newest(checkpoints) == b"older"


def test_a_store_that_does_not_answer_is_not_an_empty_one(store: CheckpointStore) -> None:
    """To begin anew because the store is down would throw away what it holds."""
    save(open_attempt(store, 1), b"precious")
    checkpoints = RunCheckpoints(Down(store), flow_run_id=RUN, attempt=2, keep=2)
    with pytest.raises(ConnectionError):
        newest(checkpoints)


def test_a_failed_deletion_is_only_logged(
    store: CheckpointStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The new checkpoint is safe, and that is what counts."""
    first = open_attempt(store, 1, keep=1)
    first.save(b"a", payload_format="bytes", saved_at=SAVED_AT)
    first.save(b"b", payload_format="bytes", saved_at=SAVED_AT)
    RunCheckpoints(Undeletable(store), flow_run_id=RUN, attempt=1, keep=1).prune()
    assert ": deleting is not allowed" in caplog.text
    assert newest(first) == b"b"


@settings(max_examples=examples(40))
@given(st.data())
def test_any_flipped_bit_of_any_part_is_noticed(data: st.DataObject) -> None:
    """A payload in parts, and one of which bytes are missing or too many."""
    with TemporaryDirectory() as root:
        checkpoints = open_attempt(LocalStore(Path(root)), 1)
        save(checkpoints, b"older")
        state = data.draw(st.binary(min_size=9, max_size=40))
        manifest = checkpoints.save(
            Payload(state, in_parts_of=4), payload_format="bytes", saved_at=SAVED_AT
        )
        assert newest(checkpoints) == state
        path = Path(root, RUN, manifest.id.payload_name)
        content = bytearray(state)
        content[data.draw(st.integers(0, len(state) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        wrong = data.draw(st.sampled_from([bytes(content), state[:-1], state + b"x", b""]))
        path.write_bytes(wrong)
        assert newest(checkpoints) == b"older"


def test_a_payload_in_parts_is_verified_in_s3(s3_uri: str) -> None:
    """Restored where all is well, left out where a part has changed."""
    store = open_store(s3_uri)
    checkpoints = open_attempt(store, 1)
    save(checkpoints, b"older")
    state = bytes(range(256)) * (24 * 1024)
    payload = Payload(state, in_parts_of=5 * 1024 * 1024)
    manifest = checkpoints.save(payload, payload_format="bytes", saved_at=SAVED_AT)
    assert newest(checkpoints) == state
    store.put(checkpoints.key(manifest.id.payload_name), state[:-1] + b"?")
    assert newest(checkpoints) == b"older"


def test_uploads_of_dead_attempts_are_aborted(store: CheckpointStore) -> None:
    """Their parts cost money; what this attempt may still finish stays."""
    unfinished = {"000001-00000009.bin", "000002-00000001.bin", "000002-00000003.bin"}

    class Leftovers(Troubled):
        def unfinished(self, folder: str) -> tuple[str, ...]:
            return tuple(unfinished)

        def abort(self, key: str) -> None:
            unfinished.discard(key.removeprefix(f"{RUN}/"))

    current = RunCheckpoints(Leftovers(store), flow_run_id=RUN, attempt=2, keep=1)
    save(current, b"1")
    save(current, b"2")
    assert unfinished == {"000002-00000003.bin"}


def test_a_store_that_cannot_be_reached_is_refused_at_the_start(tmp_path: Path) -> None:
    """Hours before the first save would have failed."""
    (tmp_path / "file").write_bytes(b"")
    want_error = (
        r"file/3f0c cannot be used: NotADirectoryError.*\. Set `checkpoint_uri` to a directory"
    )
    with pytest.raises(StoreMisconfigured, match=want_error):
        open_attempt(LocalStore(tmp_path / "file"), 1)


def test_a_bucket_that_does_not_exist_is_refused_at_the_start(s3_uri: str) -> None:
    """The error says which store, and what to check."""
    want_error = r"s3://no-such-bucket.*NoSuchBucket.*\. Create the bucket or correct"
    with pytest.raises(StoreMisconfigured, match=want_error):
        open_attempt(open_store("s3://no-such-bucket/x"), 1)


@pytest.mark.parametrize(
    ("uri", "environment", "want_error"),
    [
        pytest.param("s3://b/x", {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
                     "NoCredentialsError.*[.] Set AWS_ACCESS_KEY_ID", id="no credentials"),
        pytest.param("s3://b/x", {"AWS_PROFILE": "typo"},
                     "ProfileNotFound.*typo.*[.] Correct AWS_PROFILE", id="no such profile"),
        pytest.param("s3://b/x", {"AWS_ENDPOINT_URL_S3": "localhost:9000"},
                     "Invalid endpoint: localhost:9000[.] Correct AWS_ENDPOINT", id="endpoint"),
        pytest.param("s3://No_Bucket!/x", {},
                     "ParamValidationError.* Correct the bucket's name", id="no bucket's name"),
    ],
)  # fmt: skip
def test_a_store_that_is_configured_wrongly_says_what_to_correct(
    s3_uri: str, monkeypatch: pytest.MonkeyPatch, uri: str, environment: dict[str, str],
    want_error: str,
) -> None:  # fmt: skip
    """No attempt of the run could use it."""
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it remembers its credentials
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    for name, value in environment.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    with pytest.raises(StoreMisconfigured, match=f"{uri}.*{want_error}"):
        open_attempt(open_store(uri), 1)


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC, errno.EIO, errno.ESTALE])
def test_what_may_be_one_nodes_fault_may_be_tried_again(store: CheckpointStore, code: int) -> None:
    class Broken(Troubled):
        def put(self, key: str, content: bytes) -> None:
            raise OSError(code, os.strerror(code))

    with pytest.raises(StoreUnreachable) as raised:
        open_attempt(Broken(store), 1)
    assert not isinstance(raised.value, StoreMisconfigured)


def test_the_error_of_a_store_is_made_anew_from_its_parts() -> None:
    """As Prefect does it, to hand an error from one process to another."""
    error = store_error("/checkpoints", PermissionError(errno.EACCES, "Permission denied", "/c"))
    copied = copy.copy(error)
    assert isinstance(copied, StoreMisconfigured)
    assert str(copied) == str(error)


def open_rank(store: CheckpointStore, rank: int, ranks: int = 3, **settings: Any) -> RunCheckpoints:
    values = {"attempt": 1, "keep": 1, "pause": lambda _s: None, "shards_timeout_s": 2.0}
    return RunCheckpoints(store, flow_run_id=RUN, rank=rank, ranks=ranks, **values | settings)


def save_ranks(store: CheckpointStore, text: str, sequence: int, ranks: int = 3) -> None:
    """Every rank saves its part; rank 0 comes last, so that it need not wait."""
    for rank in reversed(range(ranks)):
        checkpoints = open_rank(store, rank, ranks)
        payload = f"{text} of rank {rank}".encode()
        checkpoints.save(payload, payload_format="bytes", saved_at=SAVED_AT, sequence=sequence)
        checkpoints.prune()


def test_every_rank_gets_its_part_back(store: CheckpointStore) -> None:
    """One checkpoint of three parts; older ones go with all their parts."""
    save_ranks(store, "step 10", 10)
    save_ranks(store, "step 20", 20)
    assert [newest(open_rank(store, rank)) for rank in range(3)] == [
        b"step 20 of rank 0",
        b"step 20 of rank 1",
        b"step 20 of rank 2",
    ]
    assert {name[:15] for name in store.names(RUN)} == {"000001-00000020"}


def test_a_checkpoint_without_all_parts_does_not_count(store: CheckpointStore) -> None:
    """Rank 0 gives up after a while, and names who is missing."""
    save_ranks(store, "step 10", 10)
    for rank in (2, 0):
        checkpoints = open_rank(store, rank)
        if rank == 2:
            checkpoints.save(b"late", payload_format="bytes", saved_at=SAVED_AT, sequence=20)
            continue
        with pytest.raises(MissingShards, match=r"000001-00000020\.rank1\.json did not arrive"):
            checkpoints.save(b"late", payload_format="bytes", saved_at=SAVED_AT, sequence=20)
    assert newest(open_rank(store, 2)) == b"step 10 of rank 2"


def test_rank_0_waits_for_the_others(store: CheckpointStore) -> None:
    """Either rank may be slower: no barrier is needed."""

    def others_save(_s: float) -> None:
        if "000001-00000005.rank1.json" not in store.names(RUN):
            open_rank(store, 1, 2).save(b"b", payload_format="bytes", saved_at=SAVED_AT, sequence=5)

    first = open_rank(store, 0, 2, pause=others_save)
    manifest = first.save(b"a", payload_format="bytes", saved_at=SAVED_AT, sequence=5)
    assert (manifest.format, manifest.size_bytes, len(manifest.shard_sha256)) == ("shards", 2, 2)


@pytest.mark.parametrize("suffix", ["bin", "json"])
def test_a_damaged_part_leaves_the_checkpoint_out_for_all_ranks(
    store: CheckpointStore, suffix: str
) -> None:
    """Ranks that continued from different steps would train nonsense."""
    for sequence in (10, 20):
        for rank in (1, 0):
            open_rank(store, rank, 2, keep=2).save(
                f"{sequence}".encode(), payload_format="bytes", saved_at=SAVED_AT, sequence=sequence
            )
    name = f"{RUN}/000001-00000020.rank1.{suffix}"
    store.put(name, store.get(name).replace(b"2", b"3"))
    assert [newest(open_rank(store, rank, 2)) for rank in range(2)] == [b"10", b"10"]


def test_another_number_of_ranks_is_refused(store: CheckpointStore) -> None:
    """To begin anew would throw the work away; to guess would mix it up."""
    save_ranks(store, "x", 10, ranks=2)
    with pytest.raises(RanksDiffer, match="saved by 2 ranks, and this run has 3"):
        newest(open_rank(store, 0, 3))
    with pytest.raises(RanksDiffer, match="saved by 2 ranks, and this run has 1"):
        newest(open_attempt(store, 2))


class Attempts(RuleBasedStateMachine):
    """Attempts begin, save, are cut short and linger on; the newest good state is never lost."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = TemporaryDirectory()
        self._store = LocalStore(Path(self._folder.name))
        self._opened: list[RunCheckpoints] = []
        self._saved = 0
        self._want_newest: bytes | None = None

    @rule()
    def begin_next_attempt(self) -> None:
        self._opened.append(open_attempt(self._store, len(self._opened) + 1))

    @precondition(lambda self: self._opened)
    @rule(times=st.integers(1, 3))
    def save(self, times: int) -> None:
        for _ in range(times):
            self._saved += 1
            self._want_newest = str(self._saved).encode()
            save(self._opened[-1], self._want_newest)

    @precondition(lambda self: len(self._opened) > 1)
    @rule(data=st.data())
    def zombie_saves_and_prunes(self, data: st.DataObject) -> None:
        zombie = data.draw(st.sampled_from(self._opened[:-1]))
        with pytest.raises(StaleAttempt):
            save(zombie, b"from the grave")
        zombie.prune()

    @precondition(lambda self: self._opened)
    @rule(stop=st.sampled_from(["bin.ab.tmp", "bin", "json.ab.tmp"]))
    def a_save_is_cut_short(self, stop: str) -> None:
        folder = Path(self._folder.name, RUN)
        (folder / f"{len(self._opened):06d}-{self._saved + 1:08d}.{stop}").write_bytes(b"half")
        self._saved += 1

    @invariant()
    def the_newest_state_is_restored(self) -> None:
        reader = RunCheckpoints(self._store, flow_run_id=RUN, attempt=10**6, keep=1)
        assert newest(reader) == self._want_newest

    def teardown(self) -> None:
        self._folder.cleanup()


TestAttempts = Attempts.TestCase
TestAttempts.settings = settings(max_examples=examples(30), stateful_step_count=12)


def test_errors_say_what_they_are() -> None:
    """Code that catches the library's base error catches these."""
    assert issubclass(StaleAttempt, GpuSchedulingError)
    assert issubclass(AlreadyCommitted, GpuSchedulingError)
