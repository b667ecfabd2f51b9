"""When spot was to be had, as attempts show it."""

from datetime import timedelta
from typing import Any

import pytest

from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.simulation.spot.recorded_availability import (
    Place,
    Span,
    sampled,
    spot_spans,
    spot_traces,
)
from gpu_core.testing.builders.attempts import NOON, at, make_attempt

A, B = Place("a10g", "zone-a"), Place("a10g", "zone-b")


def spot(start_h: float, end_h: float | None, reason: EndReason, **fields: Any) -> Attempt:
    """An attempt on spot in zone a, from one hour after noon to another."""
    released_at = None if end_h is None else at(end_h)
    values = {"admitted_at": at(start_h), "released_at": released_at, "end_reason": reason}
    return make_attempt(**({"capacity_type": "spot", "zone": "zone-a"} | values | fields))


INTERRUPTED, COMPLETED = EndReason.INTERRUPTED, EndReason.COMPLETED


@pytest.mark.parametrize(
    ("attempts", "want_spans"),
    [
        pytest.param([spot(1, 2, INTERRUPTED)], [(1, 2)], id="until the interruption"),
        pytest.param([spot(1, 2, COMPLETED)], [(1, 10)], id="an end by itself says nothing"),
        pytest.param(
            [spot(1, 2, INTERRUPTED), spot(4, 5, COMPLETED)],
            [(1, 2), (4, 10)],
            id="away until the next admission",
        ),
        pytest.param(
            [spot(1, 2, INTERRUPTED), spot(1.5, 3, INTERRUPTED)],
            [(1, 3)],
            id="another one goes on",
        ),
        pytest.param(
            [spot(1, 2, INTERRUPTED), spot(1, 2, COMPLETED)], [(1, 2)], id="both end at once"
        ),
        pytest.param(
            [spot(1, 2, COMPLETED), spot(3, 4, INTERRUPTED)], [(1, 4)], id="between two attempts"
        ),
        pytest.param([spot(1, None, COMPLETED)], [(1, 10)], id="still held"),
    ],
)
def test_spot_is_up_from_an_admission_to_an_interruption(
    attempts: list[Attempt], want_spans: list[tuple[float, float]]
) -> None:
    want = {A: tuple(Span(at(since), at(until)) for since, until in want_spans)}
    assert spot_spans(attempts, at(10)) == want
    assert spot_spans(attempts[::-1], at(10)) == want


def test_places_are_apart_and_on_demand_is_no_spot() -> None:
    attempts = [
        spot(1, 2, INTERRUPTED),
        spot(3, 4, INTERRUPTED, zone="zone-b"),
        spot(5, 6, INTERRUPTED, capacity_type="on-demand", zone="zone-c"),
    ]
    assert spot_spans(attempts, at(10)) == {A: (Span(at(1), at(2)),), B: (Span(at(3), at(4)),)}


def test_a_tick_is_as_its_middle_is() -> None:
    """Three ticks of an hour; the spans end and begin at the middle of one."""
    spans = [Span(at(-1), at(0.5)), Span(at(1.5), at(9))]
    assert sampled(spans, NOON, 3, 3600) == (False, True, True)
    assert sampled([Span(at(0), at(0.5) + timedelta(seconds=1))], NOON, 1, 3600) == (True,)


def test_a_trace_begins_with_the_first_admission() -> None:
    (trace,) = spot_traces([spot(1, 2, INTERRUPTED), spot(2.5, 3, INTERRUPTED)], at(4), tick_s=1800)
    assert (trace.name, trace.tick_s) == ("a10g in zone-a", 1800)
    assert trace.nodes_up == (1, 1, 0, 1, 0, 0)
