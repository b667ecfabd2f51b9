"""What the ledger's attempts show of the lives of spot machines."""

from itertools import permutations

import pytest

from gpu_core.decisions.accounting import EndReason
from gpu_core.decisions.capacity.observed import learned_spot_lives, spot_lives
from gpu_core.decisions.capacity_life import SPOT_PRIOR, ObservedLife
from tests.gpu_core.accounting_builders import at, make_attempt

H = 3600


def stay(begin_h, end_h, reason=EndReason.COMPLETED, **fields):
    """One attempt on the spot machine s1, unless it says otherwise."""
    values = {
        "node": "s1",
        "capacity_type": "spot",
        "admitted_at": at(begin_h),
        "released_at": None if end_h is None else at(end_h),
        "end_reason": None if end_h is None else reason,
    } | fields
    return make_attempt(f"{values['node']}-{begin_h}", **values)


CUT = EndReason.INTERRUPTED


@pytest.mark.parametrize(
    ("attempts", "want"),
    [
        pytest.param([stay(0, 2, CUT)], [(2, True)], id="interrupted"),
        pytest.param([stay(0, 2)], [(2, False)], id="given back"),
        pytest.param([stay(7, None)], [(3, False)], id="it still lives"),
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
