"""Saves in the background: the training goes on, one save at a time, and nothing is lost."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpu_core.adapters.checkpoints.run_checkpoints import StaleAttempt
from gpu_core.adapters.checkpoints.store import CheckpointStore, LocalStore
from gpu_core.adapters.files.run_files import (
    CheckpointReport,
    Notice,
    read_checkpoint_report,
    write_notice,
)
from gpu_core.decisions.checkpoints.payload import Payload
from gpu_core.decisions.checkpoints.save_interval import IntervalRule
from gpu_core.decisions.model.capacity_life import CapacityLife
from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.runtime import checkpointing
from gpu_core.runtime.checkpoints import Checkpointing
from gpu_core.testing.clock import Clock

StartAttempt = Callable[..., RunContext]


class SlowStore(LocalStore):
    """A folder whose uploads take as long as the test lets them, and fail when it says so."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.is_open = threading.Event()
        self.is_open.set()
        self.began = threading.Event()
        self.is_broken = False

    def upload(self, key: str, payload: Payload) -> None:
        self.began.set()
        assert self.is_open.wait(240)
        if self.is_broken:
            raise ConnectionError("the network is gone")
        super().upload(key, payload)


@pytest.fixture
def slow_store(tmp_path: Path) -> Iterator[SlowStore]:
    store = SlowStore(tmp_path / "store")
    yield store
    store.is_open.set()  # whatever the test did, no thread may be left waiting


def soon(seconds: float, reason: str = "Preempted") -> Notice:
    now = datetime.now(UTC)
    return Notice(
        reason=reason,
        message="'urgent' needs 4 GPUs",
        requested_at=now,
        deadline_at=now + timedelta(seconds=seconds),
    )


def report_of(run: RunContext) -> CheckpointReport:
    report = read_checkpoint_report(run.run_dir)
    assert report is not None
    return report


def restored(start_attempt: StartAttempt, store: CheckpointStore) -> object:
    start_attempt(99)
    with checkpointing(store=store) as ckpt:
        return ckpt.restore("nothing")


def test_the_training_goes_on_while_a_save_is_under_way(
    start_attempt: StartAttempt, slow_store: SlowStore
) -> None:
    """What it changes meanwhile does not reach the checkpoint, whatever the state is made of."""
    numpy = pytest.importorskip("numpy")
    run = start_attempt(1)
    state = {"step": 1, "weights": numpy.ones(50_000), "log": ["a"], "raw": bytearray(b"x" * 9)}
    with checkpointing(store=slow_store, background=True) as ckpt:
        slow_store.is_open.clear()
        assert ckpt.save(state) is None
        state["step"] = 2
        state["weights"] += 1
        state["log"].append("b")
        state["raw"][0] = 0
        assert report_of(run).checkpoint is None  # not safe yet, and it is not reported
        slow_store.is_open.set()
        assert ckpt.wait().key == "3f0c/000001-00000001"
        assert report_of(run).checkpoint == "3f0c/000001-00000001"
    back = restored(start_attempt, slow_store)
    assert (back["step"], back["log"], back["raw"]) == (1, ["a"], bytearray(b"x" * 9))
    assert (back["weights"] == numpy.ones(50_000)).all()
    back["weights"] += 1  # what was restored is trained on


def test_the_memory_is_used_again_only_when_it_is_free(
    start_attempt: StartAttempt, slow_store: SlowStore
) -> None:
    """The second save waits for the first; each checkpoint holds its own state."""
    numpy = pytest.importorskip("numpy")
    start_attempt(1, checkpoints_kept=5)
    with checkpointing(store=slow_store, background=True) as ckpt:
        for step in range(4):
            ckpt.save({"step": step, "weights": numpy.full(40_000, step)})
    start_attempt(2)
    seen = []
    with checkpointing(store=slow_store) as ckpt:
        while (back := ckpt.restore(None)) is not None:
            seen.append((back["step"], set(back["weights"].tolist())))
            name = f"3f0c/000001-{back['step'] + 1:08d}.json"
            slow_store.delete(name)
    assert seen == [(3, {3}), (2, {2}), (1, {1}), (0, {0})]


def test_what_is_due_during_an_upload_waits_for_it(
    start_attempt: StartAttempt, slow_store: SlowStore
) -> None:
    """One upload at a time; the interval counts from when the training went on."""
    start_attempt(1)
    clock = Clock()
    with checkpointing(store=slow_store, background=True, interval_s=60, clock=clock) as ckpt:
        slow_store.is_open.clear()
        ckpt.save("a")
        clock.advance(100)
        assert not ckpt.due()
        slow_store.is_open.set()
        ckpt.wait()
        assert ckpt.due()


def test_leaving_the_block_waits_for_the_save(
    start_attempt: StartAttempt, slow_store: SlowStore
) -> None:
    """Also when the flow ends with an error: the state is good, or it would not have been saved."""
    start_attempt(1)
    slow_store.is_open.clear()
    opener = threading.Timer(0.05, slow_store.is_open.set)
    with pytest.raises(ValueError, match="the flow failed"):
        leave_with_error(slow_store, opener)
    opener.join()
    assert restored(start_attempt, slow_store) == "safe"


def leave_with_error(store: SlowStore, opener: threading.Timer) -> None:
    with checkpointing(store=store, background=True) as ckpt:
        ckpt.save("safe")
        opener.start()
        raise ValueError("the flow failed")


@pytest.mark.parametrize("background", [False, True])
def test_a_failed_save_is_a_warning_and_is_tried_again(
    start_attempt: StartAttempt,
    slow_store: SlowStore,
    caplog: pytest.LogCaptureFixture,
    background: bool,
) -> None:
    """Sooner than the interval, and later with each failure; the checkpoint before it stays."""
    run = start_attempt(1)
    clock = Clock()
    with checkpointing(
        store=slow_store, background=background, interval_s=600, clock=clock
    ) as ckpt:
        ckpt.save("good")
        ckpt.wait()
        slow_store.is_broken = True
        for want_pause_s in (15, 30, 60):
            assert ckpt.save("lost") is None
            ckpt.wait()
            clock.advance(want_pause_s - 1)
            assert not ckpt.due()
            clock.advance(1)
            assert ckpt.due()
        assert "Failed to save checkpoint" in caplog.text
        assert "ConnectionError: the network is gone" in caplog.text
        assert report_of(run).sequence == 1
        slow_store.is_broken = False
        ckpt.save("better")
        ckpt.wait()
        clock.advance(599)
        assert not ckpt.due()
    assert restored(start_attempt, slow_store) == "better"


def test_a_zombie_learns_in_the_background(
    start_attempt: StartAttempt, slow_store: SlowStore
) -> None:
    """Whatever it calls next stops it."""
    start_attempt(1)
    with checkpointing(store=slow_store, background=True) as zombie:
        slow_store.is_open.clear()
        zombie.save("from the grave")
        assert slow_store.began.wait(240)
        start_attempt(2)
        with checkpointing(store=LocalStore(slow_store._root)):
            slow_store.is_open.set()
            with pytest.raises(StaleAttempt, match="should be stopped"):
                zombie.wait()
    assert restored(start_attempt, slow_store) == "nothing"


def test_the_save_after_a_notice_is_waited_for(
    start_attempt: StartAttempt, slow_store: SlowStore
) -> None:
    """When `save` returns, the run may be ended."""
    run = start_attempt(1)
    with checkpointing(store=slow_store, background=True) as ckpt:
        ckpt.save("before")
        write_notice(run.run_dir, soon(60))
        assert ckpt.due()
        saved = ckpt.save("after")
        assert saved is not None
        assert saved.key == "3f0c/000001-00000002"
        assert report_of(run).answers_notice
        assert not ckpt.due()


def test_a_save_that_does_not_fit_into_the_grace_is_not_begun(
    start_attempt: StartAttempt, slow_store: SlowStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker is informed that nothing will come, so that it does not wait for it."""
    run = start_attempt(1)
    clock = Clock()

    class SlowToPickle:
        def __reduce__(self) -> tuple[object, ...]:
            clock.advance(50)
            return (dict, ())

    with checkpointing(store=slow_store, clock=clock) as ckpt:
        ckpt.save(SlowToPickle())
        write_notice(run.run_dir, soon(30))
        assert not ckpt.due()
        assert report_of(run).answers_notice
        assert report_of(run).sequence == 1
    assert "Skipping the checkpoint for notice 'Preempted'" in caplog.text
    assert "a save needs 1m 00s" in caplog.text


def second_save_under_way(ckpt: Checkpointing, store: SlowStore, clock: Clock) -> None:
    """Save once, which takes 50 s, and begin to save again."""
    store.is_open.clear()
    ckpt.save("first")
    clock.advance(50)
    store.is_open.set()
    ckpt.wait()
    store.is_open.clear()
    ckpt.save("second")


def test_only_the_upload_under_way_still_fits(
    start_attempt: StartAttempt, slow_store: SlowStore
) -> None:
    """It is left to finish; then the worker learns that this was all."""
    run = start_attempt(1)
    clock = Clock()
    with checkpointing(store=slow_store, background=True, clock=clock) as ckpt:
        second_save_under_way(ckpt, slow_store, clock)
        clock.advance(40)
        write_notice(run.run_dir, soon(59))
        assert not ckpt.due()
        assert not report_of(run).answers_notice
        slow_store.is_open.set()
        ckpt._saver._under_way.result(240)  # it is done, and was not asked for
        assert not ckpt.due()
        assert report_of(run).answers_notice
        assert report_of(run).sequence == 2


def test_an_upload_that_ends_after_all_takes_no_answer_back(
    start_attempt: StartAttempt, slow_store: SlowStore
) -> None:
    """Nothing fitted, the worker knows, and then the upload is faster than was thought."""
    run = start_attempt(1)
    clock = Clock()
    with checkpointing(store=slow_store, background=True, clock=clock) as ckpt:
        second_save_under_way(ckpt, slow_store, clock)
        write_notice(run.run_dir, soon(10))
        assert not ckpt.due()
        assert (report_of(run).answers_notice, report_of(run).sequence) == (True, 1)
        slow_store.is_open.set()
        ckpt.wait()
        assert (report_of(run).answers_notice, report_of(run).sequence) == (True, 2)


def test_a_notice_that_ends_nothing_gets_one_more_save_as_late_as_it_fits(
    start_attempt: StartAttempt, slow_store: SlowStore
) -> None:
    """A provider takes its capacity at the deadline, not when the run has saved."""
    run = start_attempt(1)
    clock = Clock()
    with checkpointing(store=slow_store, interval_s=600, clock=clock) as ckpt:
        write_notice(run.run_dir, soon(120))
        ckpt.save("at once")
        clock.advance(110)
        assert not ckpt.due()
        clock.advance(6)
        assert ckpt.due()
        ckpt.save("the last")
        clock.advance(1)
        assert not ckpt.due()


def test_an_automatic_interval_follows_what_saves_cost(
    start_attempt: StartAttempt, slow_store: SlowStore
) -> None:
    """The worker's interval until something was measured, then Daly's optimum."""
    life = CapacityLife.constant(4 * 3600)
    start_attempt(1, checkpoint_interval_adapts=True, capacity_life=life)
    clock = Clock()

    class SixSeconds:
        def __reduce__(self) -> tuple[object, ...]:
            clock.advance(6)
            return (dict, ())

    with checkpointing(store=slow_store, clock=clock) as ckpt:
        assert (ckpt.interval.interval_s, ckpt.interval.rule) == (600, IntervalRule.DEFAULT)
        clock.advance(599)
        assert not ckpt.due()
        ckpt.save(SixSeconds())
        assert ckpt.interval.rule is IntervalRule.OPTIMUM
        clock.advance(411)
        assert not ckpt.due()
        clock.advance(1)
        assert ckpt.due()


@pytest.mark.parametrize(
    ("changes", "interval_s"),
    [
        pytest.param({"checkpoint_interval_adapts": True}, 60, id="the flow has fixed it"),
        pytest.param({"checkpoint_interval_s": 60}, None, id="the run's owner has fixed it"),
    ],
)
def test_a_fixed_interval_stays(
    start_attempt: StartAttempt, changes: dict[str, object], interval_s: float | None
) -> None:
    """Whatever saves cost."""
    start_attempt(1, capacity_life=CapacityLife.constant(100), **changes)
    clock = Clock()
    with checkpointing(interval_s=interval_s, clock=clock) as ckpt:
        assert ckpt.interval is None
        ckpt.save("x")
        clock.advance(59)
        assert not ckpt.due()
        clock.advance(1)
        assert ckpt.due()


def test_old_capacity_is_known_to_be_old(start_attempt: StartAttempt) -> None:
    """A run that starts on spot capacity of yesterday saves less often than on a new one."""
    from gpu_core.decisions.model.interruption_hazard import SPOT_PRIOR

    adaptive = {"checkpoint_interval_adapts": True, "capacity_life": SPOT_PRIOR}
    intervals = []
    for number, age in enumerate((timedelta(0), timedelta(days=1)), start=1):
        start_attempt(number, capacity_since=datetime.now(UTC) - age, **adaptive)
        clock = Clock()

        class SixSeconds:
            def __reduce__(self, clock: Clock = clock) -> tuple[object, ...]:
                clock.advance(6)
                return (dict, ())

        with checkpointing(clock=clock) as ckpt:
            ckpt.save(SixSeconds())
            intervals.append(round(ckpt.interval.interval_s))
    assert intervals == pytest.approx([150, 442], abs=2)


def test_the_first_block_gives_the_second_nothing_wrong(start_attempt: StartAttempt) -> None:
    """A report of an answered notice is not repeated for a later notice."""
    run = start_attempt(1)
    with checkpointing() as ckpt:
        write_notice(run.run_dir, soon(60))
        ckpt.save("a")
        assert report_of(run).answers_notice
        write_notice(run.run_dir, replace(soon(60), reason="TimedOut"))
        assert ckpt.due()
