"""No second of a GPU counts twice: idle and paid time against a timeline second by second."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.costs.usage.usage import US_PER_HOUR, sum_usage
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.prices import PriceChange, Rates
from gpu_core.testing.builders.attempts import at
from tests.gpu_core.decisions.costs.capacity.test_idle import cost, held, machine

_LENGTH_S = 60
_US = 1_000_000
PRICE = 3_600_000
"""Of a GPU: 1,000 micro-USD a second."""
EIGHT = machine(gpus=8, micro_usd_per_hour=8 * PRICE)


def on(number: int, *gpu_ids: str, start: float, end: float, price: int = PRICE) -> Attempt:
    """A run on whole GPUs of node-1."""
    share = NodeShare(node="node-1", gpu_ids=gpu_ids)
    return held(
        number,
        Fraction(len(gpu_ids)),
        shares=(share,),
        admitted_at=at(start),
        released_at=at(end),
        price_micro_usd_per_gpu_hour=price,
    )


def test_an_overlap_of_a_minute_on_one_gpu_of_eight_leaves_the_idle_time_of_the_others() -> None:
    """The next worker's clock is a minute behind. Both pay for it; the machine has it once."""
    minute = 1 / 60
    last, following = on(1, "0", start=0, end=1), on(2, "0", start=1 - minute, end=2)
    found = cost([EIGHT], [last, following])
    assert found.idle.gpu_hours == 2 * 7
    assert found.idle.exact_micro_usd == 2 * 7 * PRICE
    assert found.attributed.exact_micro_usd == 2 * PRICE
    assert found.beyond_micro_usd == PRICE // 60


@pytest.mark.parametrize(
    ("attempts", "want_beyond"),
    [
        pytest.param(
            [on(1, "0", "1", start=0, end=1), on(2, "1", "2", start=0, end=1)], PRICE,
            id="one of two GPUs",
        ),
        pytest.param(
            [on(1, "0", start=0, end=1), on(2, "1", start=0, end=1)], 0, id="other GPUs",
        ),
        pytest.param(
            [on(1, "0", start=0, end=1), on(2, "0", start=1, end=2)], 0, id="one after another",
        ),
        pytest.param(
            [on(1, "0", start=0, end=1), on(2, "0", start=0, end=1, price=3 * PRICE)], 2 * PRICE,
            id="at different prices each counts for half",
        ),
        pytest.param(
            [on(1, "0", start=0, end=1),
             replace(on(2, "0", start=0, end=1), later_prices=(
                 PriceChange(since=at(0.5), rates=Rates(gpu_micro_usd_per_hour=0, source="c")),
             ))],
            3 * PRICE // 4,
            id="a price that changes meanwhile",
        ),
    ],
)  # fmt: skip
def test_what_runs_pay_beyond_their_gpus(attempts: list[Attempt], want_beyond: int) -> None:
    assert cost([EIGHT], attempts).beyond_micro_usd == want_beyond


stays = st.lists(
    st.tuples(
        st.integers(0, _LENGTH_S),
        st.integers(0, _LENGTH_S),
        st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(2, 3), Fraction(1, 7)]),
        st.sets(st.integers(0, 2), min_size=1),
    ),
    max_size=6,
)


@given(of_runs=stays, cut=st.integers(0, _LENGTH_S))
def test_each_second_of_a_gpu_counts_once(
    of_runs: list[tuple[int, int, Fraction, set[int]]], cut: int
) -> None:
    """Three GPUs for a minute. What is idle, is paid and is beyond, second by second."""
    there = machine(gpus=3, micro_usd_per_hour=3 * PRICE, until=at(_LENGTH_S / 3600), seen_at=at(1))
    attempts = [
        held(
            n,
            part * len(gpus),
            shares=(
                NodeShare(
                    node="node-1",
                    gpu_ids=tuple(map(str, sorted(gpus))),
                    exact_part=(part.numerator, part.denominator),
                ),
            ),
            admitted_at=at(min(a, b) / 3600),
            released_at=at(max(a, b) / 3600),
            price_micro_usd_per_gpu_hour=PRICE,
        )
        for n, (a, b, part, gpus) in enumerate(of_runs)
    ]
    idle = beyond = Fraction(0)
    for second in range(_LENGTH_S):
        for gpu in range(3):
            parts = sum(
                part
                for a, b, part, gpus in of_runs
                if min(a, b) <= second < max(a, b) and gpu in gpus
            )
            idle += max(Fraction(0), 1 - parts)
            beyond += max(Fraction(0), parts - 1)
    (one,) = cost([there], attempts).machines
    assert one.idle.gpu_us == idle * _US
    assert one.idle.exact_micro_usd == Fraction(idle * _US * PRICE, US_PER_HOUR)
    assert one.beyond_micro_usd == Fraction(beyond * _US * PRICE, US_PER_HOUR)
    turn = at(cut / 3600)
    halves = [
        cost([there], attempts, window).idle
        for window in (Window(at(0), turn), Window(turn, at(1)))
    ]
    assert sum_usage(halves) == one.idle
