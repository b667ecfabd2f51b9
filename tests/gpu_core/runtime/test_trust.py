"""Who can write to the checkpoint store, and who cannot make a run restore what they wrote."""

import hashlib
import json
import logging
import pickle
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpu_core.adapters.checkpoints.open_store import open_store
from gpu_core.adapters.checkpoints.run_checkpoints import RunCheckpoints
from gpu_core.adapters.checkpoints.store import LocalStore, NotEnoughSpace
from gpu_core.decisions.checkpoints.manifest import encode, manifest_of
from gpu_core.decisions.checkpoints.object_names import CheckpointId
from gpu_core.decisions.checkpoints.payload import Payload
from gpu_core.decisions.checkpoints.trust import SIGNING_KEY_VARIABLE, signed
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.runtime import Ranks, checkpointing
from gpu_core.runtime.snapshot import Snapshots

StartAttempt = Callable[..., RunContext]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEY, OTHER_KEY = "a-key-of-the-pool-0123456789", "the-key-of-an-attacker-987654321"


class Attack:
    """Pickled, it writes a file when it is read."""

    def __init__(self, target: Path) -> None:
        self._target = target

    def __reduce__(self) -> tuple[object, ...]:
        return Path.write_text, (self._target, "attacked")


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SIGNING_KEY_VARIABLE, raising=False)
    for name in ("REFUSE_PICKLES", "REQUIRE_SIGNATURES"):
        monkeypatch.delenv(f"PREFECT_GPU_CHECKPOINTS_{name}", raising=False)


@pytest.fixture
def start_signed(start_attempt: StartAttempt, monkeypatch: pytest.MonkeyPatch) -> StartAttempt:
    """Become an attempt that has this key and restores signed checkpoints only."""

    def become(attempt: int, key: str = KEY, **changes: object) -> RunContext:
        monkeypatch.setenv(SIGNING_KEY_VARIABLE, key)
        return start_attempt(attempt, **({"requires_signatures": True} | changes))

    return become


def save(*states: object) -> None:
    with checkpointing(keep=10) as ckpt:
        for state in states:
            assert ckpt.save(state) is not None


def restore() -> Any:
    with checkpointing(keep=10) as ckpt:
        return ckpt.restore("the beginning")


def plant(store: Path, state: object, *, run: str = "3f0c", key: str | None = None) -> None:
    """What an attacker does who can write to the store: a newer checkpoint with right checksums."""
    checkpoint = CheckpointId(1, 99)
    payload_format, payload = Snapshots().take(state)
    payload = Payload(bytes(payload.content))
    manifest = manifest_of(checkpoint, payload, payload_format=payload_format, saved_at=NOON)
    sign = None if key is None else lambda f: signed(f, {"flow_run_id": run}, key.encode())
    folder = store / "3f0c"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / checkpoint.payload_name).write_bytes(payload.content)
    (folder / checkpoint.manifest_name).write_bytes(encode(manifest, sign))


def test_a_planted_pickle_runs_nothing_where_the_policy_refuses_pickles(
    start_attempt: StartAttempt,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The checkpoint before it is restored. Without the rule the same file is an attack."""
    target = tmp_path / "attacked"
    start_attempt(1)
    save({"step": 7})
    plant(tmp_path / "store", Attack(target))
    start_attempt(2, refuses_pickles=True)
    assert restore() == {"step": 7}
    assert not target.exists()
    assert "000001-00000099: its format is 'pickle', but pickles are not allowed" in caplog.text
    monkeypatch.delenv("PREFECT_GPU_CHECKPOINTS_REFUSE_PICKLES")
    start_attempt(2)
    restore()
    assert target.exists()


def test_a_pickle_that_says_it_is_plain_runs_nothing(
    start_attempt: StartAttempt, tmp_path: Path
) -> None:
    """The format of a manifest is the attacker's word: the reader for it touches no pickle."""
    target = tmp_path / "attacked"
    start_attempt(1, refuses_pickles=True)
    save({"step": 7})
    for payload_format in ("plain", "bytes", "shards", "zstd"):
        pickled = pickle.dumps(Attack(target))
        checkpoints = RunCheckpoints(
            open_store(str(tmp_path / "store")), flow_run_id="3f0c", attempt=1, keep=10
        )
        checkpoints.save(pickled, payload_format=payload_format, saved_at=NOON)
        start_attempt(1, refuses_pickles=True)
        assert restore() in ({"step": 7}, pickled)
    assert not target.exists()


def test_where_pickles_are_refused_a_state_that_needs_one_is_the_flows_error(
    start_attempt: StartAttempt,
) -> None:
    """It could never be restored: the flow has to know at the first save."""
    start_attempt(1, refuses_pickles=True)
    with checkpointing() as ckpt, pytest.raises(InvalidInput, match="which requires pickle"):
        ckpt.save({"when": NOON})


def test_signed_checkpoints_are_restored(start_signed: StartAttempt) -> None:
    """By the next attempt with the same key, and by one whose key has changed."""
    start_signed(1)
    save({"step": 1})
    start_signed(2)
    assert restore() == {"step": 1}
    start_signed(3, key=f"{OTHER_KEY} {KEY}")
    assert restore() == {"step": 1}
    save({"step": 2})
    start_signed(4, key=OTHER_KEY)
    assert restore() == {"step": 2}


@pytest.mark.parametrize(
    ("key", "run", "want_reason"),
    [
        pytest.param(None, "3f0c", "it is not signed", id="not signed"),
        pytest.param(OTHER_KEY, "3f0c", "its signature is invalid", id="signed with another key"),
        pytest.param(KEY, "4e1d", "its signature is for", id="of another run"),
    ],
)
def test_a_planted_checkpoint_is_left_out(
    start_signed: StartAttempt,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    key: str | None,
    run: str,
    want_reason: str,
) -> None:
    """The reason is in the log, the checkpoint before is restored, and the key is in no log."""
    caplog.set_level(logging.DEBUG)
    start_signed(1)
    save({"step": 7})
    plant(tmp_path / "store", {"step": 666}, key=key, run=run)
    start_signed(2)
    assert restore() == {"step": 7}
    assert f"000001-00000099: {want_reason}" in caplog.text
    assert KEY not in caplog.text


def resealed(manifest: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest, and make its own checksum right again."""
    fields = json.loads(manifest.read_bytes())
    del fields["manifest_sha256"]
    change(fields)
    raw = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    fields["manifest_sha256"] = hashlib.sha256(raw).hexdigest()
    manifest.write_bytes(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode())


def swap_payload(folder: Path) -> None:
    other = Snapshots().take({"step": 666})[1].content
    (folder / "000001-00000002.bin").write_bytes(other)
    digest = hashlib.sha256(other).hexdigest()
    resealed(
        folder / "000001-00000002.json", lambda f: f.update(sha256=digest, size_bytes=len(other))
    )


def rename_older(folder: Path) -> None:
    """Rolled back: the older checkpoint under the name of the newer one."""
    shutil.copy(folder / "000001-00000001.bin", folder / "000001-00000002.bin")
    shutil.copy(folder / "000001-00000001.json", folder / "000001-00000002.json")
    resealed(folder / "000001-00000002.json", lambda fields: fields.update(sequence=2))


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(swap_payload, id="another payload with right checksums"),
        pytest.param(rename_older, id="an older checkpoint under a newer name"),
        pytest.param(
            lambda folder: resealed(
                folder / "000001-00000002.json", lambda fields: fields.update(format="pickle")
            ),
            id="another format",
        ),
        pytest.param(
            lambda folder: resealed(
                folder / "000001-00000002.json", lambda fields: fields.pop("signature")
            ),
            id="the signature taken away",
        ),
        pytest.param(
            lambda folder: resealed(
                folder / "000001-00000002.json",
                lambda fields: fields.update(signature=fields["signature"][:-2]),
            ),
            id="the signature cut short",
        ),
        pytest.param(
            lambda folder: resealed(
                folder / "000001-00000002.json", lambda fields: fields.update(signature="ö" * 64)
            ),
            id="a signature of other characters",
        ),
        pytest.param(
            lambda folder: (folder / "000001-00000002.bin").write_bytes(b"PG"), id="cut short"
        ),
    ],
)
def test_what_was_changed_behind_a_signature_is_left_out(
    start_signed: StartAttempt, tmp_path: Path, attack: Callable[[Path], None]
) -> None:
    """Right checksums do not help without the key."""
    start_signed(1)
    save({"step": 7}, {"step": 8})
    attack(tmp_path / "store/3f0c")
    start_signed(2)
    assert restore() == {"step": 7}


def test_a_checkpoint_of_another_run_cannot_be_moved(
    start_signed: StartAttempt, tmp_path: Path
) -> None:
    """Its signature names its run."""
    start_signed(1, flow_run_id="4e1d")
    save({"step": 666})
    start_signed(1)
    shutil.copytree(tmp_path / "store/4e1d", tmp_path / "store/3f0c")
    assert restore() == "the beginning"


def test_checkpoints_from_before_signatures_are_restored_unless_they_are_required(
    start_attempt: StartAttempt, start_signed: StartAttempt
) -> None:
    """A pool can begin to sign while runs are under way, and require it later."""
    start_attempt(1)
    save({"step": 7})
    start_signed(2, requires_signatures=False)
    assert restore() == {"step": 7}
    start_signed(3)
    assert restore() == "the beginning"


def test_a_signed_checkpoint_is_restored_without_a_key(
    start_attempt: StartAttempt, start_signed: StartAttempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where signatures are not required: a pool can stop to sign, too."""
    start_signed(1)
    save({"step": 7})
    monkeypatch.delenv(SIGNING_KEY_VARIABLE)
    monkeypatch.delenv("PREFECT_GPU_CHECKPOINTS_REQUIRE_SIGNATURES")
    start_attempt(2)
    assert restore() == {"step": 7}


def test_a_run_without_a_key_does_not_begin_where_signatures_are_required(
    start_attempt: StartAttempt,
) -> None:
    """What it saved could never be restored."""
    start_attempt(1, requires_signatures=True)
    with pytest.raises(InvalidInput, match=r"CHECKPOINT_SIGNING_KEY must be set"):
        checkpointing()


def test_a_short_key_is_refused_without_being_shown(start_signed: StartAttempt) -> None:
    """It could be guessed; the error is on the run's page."""
    start_signed(1, key="s3cret")
    with pytest.raises(InvalidInput, match="too short") as refused:
        checkpointing()
    assert "s3cret" not in str(refused.value)


def test_parts_of_ranks_cannot_change_places(start_signed: StartAttempt, tmp_path: Path) -> None:
    """Each rank's part is signed as the part of that rank."""
    start_signed(1)

    def save_parts(step: int) -> None:
        for rank in (1, 0):
            with checkpointing(ranks=Ranks(rank=rank, count=2), keep=10) as ckpt:
                assert ckpt.save({"rank": rank, "step": step}, step=step)

    save_parts(1)
    save_parts(2)
    folder = tmp_path / "store/3f0c"
    for kind in ("bin", "json"):
        first, second = (folder / f"000001-00000002.rank{rank}.{kind}" for rank in (0, 1))
        content = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(content)
    start_signed(2)
    with checkpointing(ranks=Ranks(rank=1, count=2)) as ckpt:
        assert ckpt.restore(None) == {"rank": 1, "step": 1}


def test_rank_0_signs_for_no_part_that_is_not_signed(
    start_attempt: StartAttempt,
    start_signed: StartAttempt,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Or a planted part would get the signature of the whole."""
    start_attempt(1)
    with checkpointing(ranks=Ranks(rank=1, count=2)) as ckpt:
        assert ckpt.save({"rank": 666}, step=1)
    start_signed(1, requires_signatures=False)
    with checkpointing(ranks=Ranks(rank=0, count=2)) as ckpt:
        assert ckpt.save({"rank": 0}, step=1) is None
    assert "UntrustedCheckpoint: it is not signed" in caplog.text


def test_rank_0_signs_for_no_part_of_another_rank(
    start_signed: StartAttempt, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A part that another rank has signed, under the name of this one."""
    start_signed(1)
    for rank in (1, 2):
        with checkpointing(ranks=Ranks(rank=rank, count=3)) as ckpt:
            assert ckpt.save({"rank": rank}, step=1)
    for kind in ("bin", "json"):
        name = f"000001-00000001.rank{{}}.{kind}"
        folder = tmp_path / "store/3f0c"
        shutil.copy(folder / name.format(2), folder / name.format(1))
    with checkpointing(ranks=Ranks(rank=0, count=3)) as ckpt:
        assert ckpt.save({"rank": 0}, step=1) is None
    assert "its signature is for a different location: {'rank': 2}" in caplog.text


class Disk(LocalStore):
    """A folder on a disk with so much room."""

    free: int = 0

    def free_bytes(self) -> int:
        return self.free


@pytest.mark.parametrize(
    ("saved_bytes", "free_mib", "want_error"),
    [
        pytest.param(None, 64, None, id="enough for a first save"),
        pytest.param(None, 63, "has 63.0 MiB free and needs 64.0 MiB for a first save", id="full"),
        pytest.param(100 * 2**20, 106, None, id="enough for another save"),
        pytest.param(
            100 * 2**20,
            104,
            "has 104.0 MiB free and needs 105.0 MiB after a save of 100.0 MiB. Delete checkpoints "
            "of finished runs or set `checkpoint_uri`",
            id="not enough for another",
        ),
        pytest.param(10, 1, None, id="enough for a small one"),
        pytest.param(10, 0, "needs 1.0 MiB after a save of 0.0 MiB", id="nothing"),
    ],
)
def test_a_run_does_not_begin_where_the_disk_cannot_take_one_save(
    start_attempt: StartAttempt,
    tmp_path: Path,
    saved_bytes: int | None,
    free_mib: int,
    want_error: str | None,
) -> None:
    """It would work for hours and could save nothing. Nothing is written before it is refused."""
    disk = Disk(tmp_path / "store")
    disk.free = 2**40
    start_attempt(1)
    if saved_bytes is not None:
        with checkpointing(store=disk) as ckpt:
            ckpt.save(bytes(saved_bytes))
    before = sorted(disk.names("3f0c"))
    disk.free = free_mib * 2**20
    start_attempt(2)
    if want_error is None:
        with checkpointing(store=disk):
            return
    with pytest.raises(NotEnoughSpace, match=want_error), checkpointing(store=disk):
        pytest.fail("the block must not begin")
    assert sorted(disk.names("3f0c")) == before


def test_a_folder_knows_its_disk_before_it_exists(tmp_path: Path) -> None:
    """The first run of a store makes its folder."""
    free = open_store(str(tmp_path / "not" / "yet")).free_bytes()
    assert free is not None
    assert abs(free - shutil.disk_usage(tmp_path).free) < 2**30
    assert not (tmp_path / "not").exists()


def test_an_unsigned_size_keeps_no_run_from_beginning(
    start_signed: StartAttempt, tmp_path: Path
) -> None:
    """Who can write to the store claims that the last save had 200 MiB; the disk has 100."""
    disk = Disk(tmp_path / "store")
    disk.free = 2**40
    start_signed(1)
    with checkpointing(store=disk) as ckpt:
        ckpt.save({"step": 1})
    plant(tmp_path / "store", bytes(200 * 2**20))
    disk.free = 100 * 2**20
    start_signed(2)
    with checkpointing(store=disk) as ckpt:
        assert ckpt.restore("the beginning") == {"step": 1}


def test_a_size_that_is_only_claimed_keeps_no_run_from_beginning(
    start_attempt: StartAttempt, tmp_path: Path
) -> None:
    """Without signatures a manifest can claim anything; what lies in the store is what counts."""
    disk = Disk(tmp_path / "store")
    disk.free = 2**40
    start_attempt(1)
    with checkpointing(store=disk) as ckpt:
        ckpt.save({"step": 1})
    (manifest,) = (tmp_path / "store/3f0c").glob("*-*.json")
    resealed(manifest, lambda fields: fields.update(size_bytes=2**60))
    disk.free = 2 * 2**20
    start_attempt(2)
    with checkpointing(store=disk) as ckpt:
        assert ckpt.restore({"step": 0}) == {"step": 0}
