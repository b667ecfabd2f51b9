"""Each cycle is in exactly one line, and a quiet pool writes few of them."""

import logging
from dataclasses import replace

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.worker.operations.cycle_log import LONGEST_SILENCE_S, CycleCounts, CycleLog, StepTimes
from gpu_core.worker.operations.own_cpu import OwnCpu

QUIET = CycleCounts(pending=3, held=1, started=0, preempted=0, running=2, gpus_used=5, gpus_free=2)


class Lines(logging.Handler):
    """What the cycle's logger was given while the block lasts."""

    def __enter__(self):
        self.records = []
        self.logger = logging.getLogger("prefect.gpu.cycle")
        self.before = self.logger.level
        self.logger.setLevel(logging.INFO)
        self.logger.addHandler(self)
        return self

    def __exit__(self, *_):
        self.logger.removeHandler(self)
        self.logger.setLevel(self.before)

    def emit(self, record):
        self.records.append(record)


def test_what_a_line_says():
    with Lines() as lines:
        log = CycleLog()
        log.note(replace(QUIET, started=2, preempted=1), {"plan": 0.0421}, 0.01, now_s=100.0)
        log.note(QUIET, {"plan": 0.5}, 0.01, now_s=101.0)
        log.note(replace(QUIET, pending=0), {"plan": 0.5}, 0.01, now_s=101.0)
        log.note(replace(QUIET, pending=0), {"plan": 2.0}, 0.3, now_s=102.0)
        log.note(replace(QUIET, pending=4), {"plan": 0.25}, 0.01, now_s=103.0)

    assert [record.getMessage() for record in lines.records] == [
        "Cycle: 3 pending (1 held), 2 started, 1 preempted, 2 running; 5 of 7 GPUs used, 2 free; "
        "0.042 s",
        "Cycle: 0 pending (1 held), 0 started, 0 preempted, 2 running; 5 of 7 GPUs used, 2 free; "
        "2 cycles of at most 0.500 s, the last one 0.500 s",
        "Cycle: 4 pending (1 held), 0 started, 0 preempted, 2 running; 5 of 7 GPUs used, 2 free; "
        "2 cycles of at most 2.000 s, the last one 0.250 s",
    ]
    last = lines.records[-1]
    assert (last.cycles, last.pending, last.duration_s, last.longest_s) == (2, 4, 0.25, 2.0)
    assert last.steps_s == {"plan": 0.25}
    assert (last.cpu_s, last.longest_cpu_s) == (0.01, 0.3)
    assert {record.levelname for record in lines.records} == {"INFO"}


counts = st.builds(
    CycleCounts, **{name: st.integers(0, 2) for name in CycleCounts.__dataclass_fields__}
)


@given(st.lists(st.tuples(counts, st.floats(0, 90)), min_size=1, max_size=40))
def test_every_cycle_is_in_exactly_one_line_within_a_minute(cycles):
    """And every cycle that did something, or left something else behind it, ends a line."""
    now_s, unwritten_since_s, last = 0.0, None, None
    with Lines() as lines:
        log = CycleLog()
        for number, (found, pause_s) in enumerate(cycles, start=1):
            now_s += pause_s
            n_before = len(lines.records)
            log.note(found, {"plan": 0.1}, 0.01, now_s=now_s)
            is_written = len(lines.records) > n_before
            assert is_written or (found.standing == last and not found.is_eventful)
            if is_written:
                assert sum(record.cycles for record in lines.records) == number
                unwritten_since_s, last = None, found.standing
            else:
                unwritten_since_s = now_s if unwritten_since_s is None else unwritten_since_s
                assert now_s - unwritten_since_s < LONGEST_SILENCE_S


def test_a_quiet_pool_that_is_polled_each_second_writes_a_line_a_minute():
    with Lines() as lines:
        log = CycleLog()
        for second in range(3_600):
            log.note(QUIET, {"plan": 0.01}, 0.01, now_s=float(second))

    assert len(lines.records) == 60
    assert sum(record.cycles for record in lines.records) == 3_541


def test_the_steps_of_every_cycle_are_said_at_debug(caplog):
    """Also those of a cycle that has no line of its own."""
    caplog.set_level(logging.DEBUG, "prefect.gpu.cycle")
    log = CycleLog()
    for now_s in (1.0, 2.0):
        log.note(QUIET, {"find_ended": 0.001, "plan": 0.25}, 0.01, now_s=now_s)
    lines = [record.getMessage() for record in caplog.records if record.levelname == "DEBUG"]
    assert lines == ["Steps of the cycle: 1. find_ended 0.001 s, 2. plan 0.250 s"] * 2


def test_a_step_that_fails_is_timed_too():
    async def fail():
        steps = StepTimes(OwnCpu())
        with pytest.raises(OSError, match="away"), steps.timed("observe"):
            raise OSError("away")
        return steps.seconds

    assert list(anyio.run(fail)) == ["observe"]
