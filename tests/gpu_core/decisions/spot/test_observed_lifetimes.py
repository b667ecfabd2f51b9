"""What the ledger's attempts show of the lives of spot machines."""

from itertools import permutations

import pytest

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.interruption_hazard import SPOT_PRIOR, ObservedLife
from gpu_core.decisions.model.virtual_nodes import UNKNOWN_NODE
from gpu_core.decisions.spot.observed_lifetimes import (
    SpotPast,
    learned_spot_lives,
    spot_lives,
    spot_pasts,
    spot_stays,
)
from gpu_core.decisions.spot.survival import Lifetimes
from gpu_core.testing.builders.attempts import at, make_attempt

H = 3600


def stay(begin_h, end_h, reason=EndReason.COMPLETED, **fields):
    """One attempt on the spot machine s1, unless it says otherwise."""
    values = {
        "flow_run_id": f"{fields.get('node')}-{begin_h}",
        "node": "s1",
        "capacity_type": "spot",
        "admitted_at": at(begin_h),
        "released_at": None if end_h is None else at(end_h),
        "end_reason": None if end_h is None else reason,
    } | fields
    return make_attempt(**values)


CUT = EndReason.INTERRUPTED
# Prefect's API was unavailable: the machine went on.
EXCUSED = {"reason": CUT, "settlement": {"excused_at": at(2).isoformat()}}


@pytest.mark.parametrize(
    ("attempts", "want"),
    [
        pytest.param([stay(0, 2, CUT)], [(2, True)], id="interrupted"),
        pytest.param([stay(0, 2)], [(2, False)], id="given back"),
        pytest.param([stay(7, None)], [(3, False)], id="it still lives"),
        pytest.param([stay(0, 2, **EXCUSED)], [(2, False)], id="an outage of the platform"),
        pytest.param([stay(0, 1), stay(2, 5, CUT)], [(5, True)], id="two runs on one machine"),
        pytest.param(
            [stay(0, 2, CUT, attempt_id="a"), stay(1, 2, CUT)], [(2, True)], id="both at once"
        ),
        pytest.param(
            [stay(0, 2, CUT), stay(3, 4, CUT)], [(2, True), (1, True)], id="its name again"
        ),
        pytest.param(
            [stay(0, 2, CUT), stay(0, 3, CUT, node="s2")], [(2, True), (3, True)], id="two machines"
        ),
        pytest.param([stay(0, 2, CUT, capacity_type="on-demand")], None, id="on-demand"),
        pytest.param([stay(0, 2, CUT, node="new/big/0")], None, id="a node that never came"),
        pytest.param([stay(0, 2, CUT, node=UNKNOWN_NODE)], None, id="an unknown node"),
        pytest.param([stay(0, 2, gpu_type=None)], None, id="no GPU"),
        pytest.param([stay(0, -1, CUT)], [(0, True)], id="clocks that differ"),
    ],
)
def test_lives(attempts, want):
    lives = None if want is None else [ObservedLife(hours * H, cut) for hours, cut in want]
    for order in permutations(attempts):
        found = spot_lives(order, at(10)).get("a10g")
        assert (None if found is None else list(found)) == lives


def test_each_gpu_type_has_its_own_lives():
    """Four a10g machines that die after 500 s each: (4 × 500 + 4 × 1,940) / 8 s."""
    deaths = [stay(0, 500 / H, CUT, node=f"s{i}") for i in range(4)]
    steady = stay(0, 9, node="t", gpu_type="t4")
    found = learned_spot_lives([*deaths, steady], at(10))
    assert found.keys() == {"a10g", "t4"}
    assert found["a10g"].stages[0].mean_life_s == pytest.approx((4 * 500 + 4 * 1_940) / 8)
    for stage, prior in zip(found["t4"].stages, SPOT_PRIOR.stages, strict=True):
        assert stage.mean_life_s > prior.mean_life_s


def test_how_spot_comes_and_goes_for_the_runs_of_a_pool():
    """Two machines' lives, one ended; one gap, of the run that came back to spot."""
    cut = stay(0, 2, CUT, flow_run_id="run", number=1)
    back = stay(3, 4, flow_run_id="run", number=2, node="s2")
    past = spot_pasts([back, cut], at(10))["a10g"]
    assert (past.up.ends, past.away.ends) == (1, 1)
    assert past.observed_s == (2 + 1 + 1) * H
    assert past.up.exposure == Lifetimes().ended(2 * H).lasted(1 * H).exposure
    assert past.away == Lifetimes().ended(1 * H)


@pytest.mark.parametrize(
    "later",
    [
        pytest.param({"capacity_type": "on-demand", "number": 2}, id="it went on elsewhere"),
        pytest.param({"number": 3}, id="what it did in between is not known"),
    ],
)
def test_a_life_of_unknown_gap_counts_for_nothing(later):
    cut = stay(0, 2, CUT, flow_run_id="run", number=1)
    after = stay(3, 4, node="s2", **({"flow_run_id": "run"} | later))
    assert spot_pasts([cut, after], at(10))["a10g"].away.ends == 0


def test_several_types_are_one_past():
    one = SpotPast().with_away(60).with_up(ObservedLife(120, was_interrupted=True))
    both = SpotPast.of([one, SpotPast(), one])
    assert (both.up.ends, both.away.ends, both.observed_s) == (2, 2, 360)


def test_the_stays_of_machines_in_their_zones():
    """Where the zone is not stated, there is none."""
    attempts = [
        stay(0, 2, CUT, zone="a"),
        stay(0, 1, node="s2", zone="b"),
        stay(1, None, node="s2", zone="b", flow_run_id="later"),
        stay(0, 3, CUT, node="s3"),
        stay(0, 4, CUT, node="s4", zone="a", gpu_type="t4"),
    ]
    found = {
        gpu_type: [(s.zone, s.began_at, s.ended_at, s.was_interrupted) for s in stays]
        for gpu_type, stays in spot_stays(attempts, at(10)).items()
    }
    assert found == {
        "a10g": [("a", at(0), at(2), True), ("b", at(0), at(10), False)],
        "t4": [("a", at(0), at(4), True)],
    }
