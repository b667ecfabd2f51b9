"""What the best possible would have cost a finished run."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.simulation.spot.hindsight import (
    Hindsight,
    NoHindsight,
    hindsight,
    on_demand_prices,
)
from gpu_core.decisions.simulation.spot.recorded_availability import Place, Span
from gpu_core.testing.builders.attempts import at, make_attempt, make_run
from tests.support.examples import examples

RUN = make_run(final_state="Completed")
A, B = Place("a10g", "zone-a"), Place("a10g", "zone-b")
USD = 1_000_000


def attempt(number: int, start_h: float, end_h: float, **fields: Any) -> Attempt:
    """An attempt on spot that started to work at once."""
    values = {
        "admitted_at": at(start_h),
        "started_at": at(start_h),
        "released_at": at(end_h),
        "capacity_type": "spot",
        "zone": "zone-a",
        "end_reason": EndReason.COMPLETED,
    }
    return make_attempt(number=number, **(values | fields))


def on_demand(number: int, start_h: float, end_h: float, **fields: Any) -> Attempt:
    prices = {"capacity_type": "on-demand", "price_micro_usd_per_gpu_hour": 3 * USD}
    return attempt(number, start_h, end_h, **(prices | fields))


def judged(attempts: list[Attempt], work_h: float, spans: dict[Place, list[Span]]) -> Hindsight:
    found = hindsight(RUN, attempts, work_h * 3600, spans, 3 * USD)
    assert isinstance(found, Hindsight)
    return found


def test_a_run_that_took_all_the_spot_there_was_could_not_be_cheaper() -> None:
    found = judged([attempt(1, 0, 6)], 6, {A: [Span(at(0), at(6))]})
    assert (found.paid_micro_usd, found.best_micro_usd) == (6 * USD, 6 * USD)
    assert found.by_best == 1


def test_what_another_zone_had_counts() -> None:
    """Spot for 2 hours, then on-demand for 4, in 3 of which zone b had spot: 2 + 3 + 3 USD."""
    attempts = [attempt(1, 0, 2, end_reason=EndReason.INTERRUPTED), on_demand(2, 2, 6)]
    spans = {A: [Span(at(0), at(2))], B: [Span(at(3), at(6))]}
    found = judged(attempts, 6, spans)
    assert found.paid_micro_usd == 14 * USD
    assert found.best_micro_usd == pytest.approx(8 * USD, rel=0.01)


def test_another_gpu_type_does_not() -> None:
    attempts = [attempt(1, 0, 2, end_reason=EndReason.INTERRUPTED), on_demand(2, 2, 6)]
    spans = {A: [Span(at(0), at(2))], Place("t4", "zone-b"): [Span(at(3), at(6))]}
    assert judged(attempts, 6, spans).best_micro_usd == pytest.approx(14 * USD, rel=0.01)


def test_starts_are_as_slow_as_the_runs_own() -> None:
    """An hour until each start: one on spot of two hours gives one of work; the rest was lost."""
    attempts = [
        attempt(1, 0, 2, started_at=at(1), end_reason=EndReason.INTERRUPTED),
        attempt(2, 2, 5, started_at=at(3)),
    ]
    found = judged(attempts, 2, {A: [Span(at(0), at(5))]})
    assert found.paid_micro_usd == 5 * USD
    assert found.best_micro_usd == pytest.approx(3 * USD, rel=0.01)


def test_a_gang_pays_for_all_its_gpus() -> None:
    two = [attempt(1, 0, 6, gpu_ids=("0", "1"))]
    found = judged(two, 6, {A: [Span(at(0), at(6))]})
    assert (found.gpus, found.best_micro_usd) == (2, 12 * USD)


@pytest.mark.parametrize(
    ("changes", "work_s", "price", "want"),
    [
        pytest.param({"capacity_type": "on-demand"}, 60, USD, NoHindsight.NO_SPOT, id="no spot"),
        pytest.param({"released_at": None}, 60, USD, NoHindsight.NOT_ENDED, id="running"),
        pytest.param(
            {"price_micro_usd_per_gpu_hour": None}, 60, USD, NoHindsight.NO_PRICE, id="unpriced"
        ),
        pytest.param({}, 60, None, NoHindsight.NO_PRICE, id="no price of on-demand"),
        pytest.param({}, 0.0, USD, NoHindsight.NO_WORK, id="nothing was kept"),
    ],
)
def test_why_nothing_can_be_said(
    changes: dict[str, Any], work_s: float, price: int | None, want: NoHindsight
) -> None:
    assert hindsight(RUN, [attempt(1, 0, 1, **changes)], work_s, {}, price) is want


def test_other_reasons_why_nothing_can_be_said() -> None:
    unfinished = make_run(final_state=None)
    assert hindsight(unfinished, [attempt(1, 0, 1)], 60, {}, USD) is NoHindsight.NOT_ENDED
    kinds = [attempt(1, 0, 1), attempt(2, 1, 2, gpu_type="t4")]
    assert hindsight(RUN, kinds, 60, {}, USD) is NoHindsight.SEVERAL_KINDS


def test_the_newest_price_of_on_demand_counts() -> None:
    cheaper = {"price_micro_usd_per_gpu_hour": 2 * USD}
    attempts = [on_demand(1, 4, 5, **cheaper), on_demand(2, 0, 1), attempt(3, 6, 7)]
    assert on_demand_prices(attempts) == {"a10g": 2 * USD}


@settings(max_examples=examples(40), deadline=None)
@given(
    ends_h=st.lists(st.floats(0.2, 4), min_size=1, max_size=4),
    starts_s=st.integers(0, 600),
    other_h=st.tuples(st.floats(0, 8), st.floats(0, 8)),
)
def test_the_best_is_no_more_than_was_paid_and_no_less_than_spot_for_the_work(
    ends_h: list[float], starts_s: int, other_h: tuple[float, float]
) -> None:
    attempts, spans, began_h, work_h = [], [], 0.0, 0.0
    for number, length_h in enumerate(ends_h, start=1):
        end_h = began_h + length_h
        reason = EndReason.COMPLETED if number == len(ends_h) else EndReason.INTERRUPTED
        started_at = at(min(end_h, began_h + starts_s / 3600))
        attempts.append(attempt(number, began_h, end_h, started_at=started_at, end_reason=reason))
        work_h += max(0.0, length_h - starts_s / 3600)
        spans.append(Span(at(began_h), at(end_h)))
        began_h = end_h + 0.5
    found = hindsight(
        RUN,
        attempts,
        work_h * 3600,
        {A: spans, B: [Span(at(min(other_h)), at(max(other_h)))]},
        3 * USD,
    )
    if isinstance(found, NoHindsight):
        assert work_h <= 0
        return
    assert work_h * USD * 0.999 <= found.best_micro_usd <= found.paid_micro_usd
