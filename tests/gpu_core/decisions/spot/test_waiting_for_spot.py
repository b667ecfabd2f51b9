"""What a run that waits for spot says: the rule, its numbers, and what ends its waiting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.workload import Changeover
from gpu_core.decisions.spot.state import Capacity, CapacityDecision, RemainingWork, Rule
from gpu_core.decisions.spot.waiting_for_spot import waiting_hold

HOUR_S = 3600.0
YEAR_S = 365 * 24 * HOUR_S
MICRO_USD = 1_000_000
MOST_MICRO_USD = 99_999 * MICRO_USD
WAITS = (Rule.WAIT_FOR_SPOT, Rule.AHEAD, Rule.BUDGET_NEEDS_SPOT, Rule.BUDGET_SPENT, Rule.DONE)

decisions = st.builds(
    CapacityDecision,
    capacity=st.just(Capacity.IDLE),
    rule=st.sampled_from(WAITS),
    slack_s=st.none() | st.floats(0, YEAR_S),
    progress_s=st.floats(0, YEAR_S),
    expected_progress_s=st.none() | st.floats(0, YEAR_S),
    spot_age_s=st.floats(0, YEAR_S),
    patience_s=st.none() | st.floats(0, YEAR_S),
    price_ratio=st.none() | st.floats(0.01, 100),
    rest=st.none() | st.builds(RemainingWork, *[st.integers(0, MOST_MICRO_USD) for _ in range(3)]),
    changeover=st.none()
    | st.builds(Changeover, loss_s=st.floats(1, 24 * HOUR_S - 1), starts=st.integers(0, 99)),
)


@given(decision=decisions)
def test_each_of_the_two_is_one_sentence_of_at_most_120_characters(
    decision: CapacityDecision,
) -> None:
    """With waits of a year, and budgets of up to $99,999."""
    hold = waiting_hold(decision)
    for sentence in (hold.summary, hold.resolution):
        assert len(sentence) <= 120
        assert sentence.endswith(".")
        assert sentence[:-1].rstrip(".") == sentence[:-1]


@pytest.mark.parametrize(
    ("rule", "numbers", "want_summary", "want_resolution"),
    [
        pytest.param(
            Rule.WAIT_FOR_SPOT,
            {"patience_s": 3 * HOUR_S, "spot_age_s": HOUR_S, "price_ratio": 2.4},
            "Waiting for spot: unavailable for 1h 00m of at most 3h 00m; "
            "on-demand costs 2.40 times spot.",
            "The run starts once spot is available, or on on-demand capacity if it can no "
            "longer wait.",
            id="patience, and no deadline",
        ),
        pytest.param(
            Rule.WAIT_FOR_SPOT,
            {},
            "Waiting for spot: spot is currently unavailable.",
            "The run starts once spot is available, or on on-demand capacity if it can no "
            "longer wait.",
            id="no number is known",
        ),
        pytest.param(
            Rule.AHEAD,
            {
                "progress_s": 5 * HOUR_S,
                "expected_progress_s": 4 * HOUR_S,
                "slack_s": 2 * HOUR_S,
                "changeover": Changeover(loss_s=1350, starts=3),
            },
            "Waiting for spot: progress 5h 00m of 4h 00m expected by now; slack 2h 00m.",
            "The run starts on spot, or in time on on-demand; a start loses at most 22m 30s by 3 "
            "measured starts.",
            id="ahead of the line, with a measured changeover",
        ),
        pytest.param(
            Rule.BUDGET_NEEDS_SPOT,
            {"rest": RemainingWork(20 * MICRO_USD, 15 * MICRO_USD, 36 * MICRO_USD)},
            "Waiting for spot: $20.00 of the budget remains, with $15.00 required on spot "
            "and $36.00 on on-demand.",
            "The run starts once spot is available. To use on-demand capacity, increase the "
            "`budget_usd` job variable.",
            id="the budget holds on spot only",
        ),
    ],
)
def test_why_it_waits(
    rule: Rule, numbers: dict[str, object], want_summary: str, want_resolution: str
) -> None:
    hold = waiting_hold(CapacityDecision(Capacity.IDLE, rule)._replace(**numbers))
    assert (hold.summary, hold.resolution) == (want_summary, want_resolution)
