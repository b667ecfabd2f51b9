"""The models that savings are judged with: what they must give where it is known."""

from dataclasses import replace
from datetime import date

import pytest

from benchmarks.machine_days import Demand, Machines, intervals, saving
from benchmarks.saved_work import SavedHistory, best_saving, young_s
from benchmarks.saving_cases import facts_of
from benchmarks.saving_histories import FIRST_DAY, Work
from benchmarks.shared_work import stretch
from gpu_core.decisions.model.attempts import EndReason

MONDAY = date(2026, 9, 7)
WORK = Work(
    deployment="train/saves",
    runs_per_weekday=4,
    hours=3.0,
    spread=0.2,
    gpu_type="a10g",
    gpu_count=1,
    capacity_type="spot",
    price_micro_usd=1_000_000,
    per_hour=0.3,
    checkpoint_s=600.0,
    stall_s=10.0,
)


@pytest.mark.parametrize("own", [0.05, 0.5, 0.9])
def test_neighbors_slow_a_run_down_by_what_they_do_on_the_gpu(own):
    alone, idle, busy = stretch(own, []), stretch(own, [0.01] * 3), stretch(own, [0.95] * 3)
    assert alone == pytest.approx(1)
    assert 1 < idle < 1.1
    assert idle < busy <= 1 + own * 3 * 1.03


def test_what_was_saved_is_not_done_again():
    """Work between saves is the same for each interval; what an interruption loses is not."""
    for interval_s in (120.0, 1800.0):
        history = SavedHistory(5)
        work = replace(WORK, checkpoint_s=interval_s)
        facts = facts_of(history.run(work, FIRST_DAY) for _ in range(400))
        assert sum(f.useful_s for f in facts) / len(facts) == pytest.approx(3 * 3600, rel=0.03)
        ends = {a.end_reason for fact in facts for a in fact.attempts}
        assert ends == {EndReason.COMPLETED, EndReason.INTERRUPTED}


def test_the_best_interval_saves_nothing_where_it_is_the_interval():
    near = replace(WORK, checkpoint_s=young_s(WORK))
    assert best_saving(near) < 0.02
    assert best_saving(replace(WORK, checkpoint_s=young_s(WORK) / 15)) > 0.1


def test_a_commitment_for_machines_that_are_always_there_saves_its_discount():
    demand = Demand(always=2, shift=0, shift_hours=8.0, more=0.0, ratio=0.6)
    days = Machines(demand, (1,)).days(MONDAY, 28)
    assert saving(days, 0, 0.6) == 0
    assert saving(days, 2, 0.6) == pytest.approx(0.4, abs=0.01)
    assert saving(days, 4, 0.6) < 0
    assert len(intervals(days, MONDAY)) == 2 * 28
