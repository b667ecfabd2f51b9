"""A difference of costs beyond noise, and what it will be once it was noticed."""

from dataclasses import replace

import numpy as np
import pytest

from gpu_core.decisions.optimization.proposals.configuration_proposals import (
    comparisons,
    configuration_case,
    is_beyond_noise,
)
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.run_facts import run_facts
from tests.gpu_core.decisions.optimization.proposals.test_propose import DAY, NOW, WORK, history

PERIOD = Period.before(DAY)
HALF = replace(WORK.faster(1.5), gpu_count=2, runs_per_weekday=0.7)
FACTS = run_facts(history(WORK, HALF), PERIOD.window, NOW)
((USUAL, OTHER),) = comparisons(FACTS)


@pytest.mark.parametrize("runs", [10, 40])
def test_costs_that_vary_by_their_mean_are_seldom_taken_for_a_saving(runs):
    """Few of many: Welch's test alone names 10 of them where one of 1,000 may be named."""
    rng = np.random.default_rng(3)
    false_part, tries = 0.002, 2_000
    named = sum(
        is_beyond_noise(rng.exponential(size=runs), rng.exponential(size=140), false_part)
        for _ in range(tries)
    )
    # Two of 2,000 are expected at most; six or more of two are one chance in 60.
    assert named <= 6


def test_a_run_that_costs_nothing_is_compared_all_the_same():
    free, dear = np.append(np.full(20, 1.0), 0.0), np.linspace(9.0, 11.0, 20)
    assert is_beyond_noise(free, dear, 0.001)


def drawn(comparisons_made):
    found = configuration_case(FACTS, USUAL, OTHER, comparisons_made, PERIOD, (1,))
    return None if found is None else np.percentile(found.draws, (10, 50, 90))


def test_a_saving_that_was_just_noticed_is_expected_to_be_smaller_than_it_was_seen():
    """The more is compared, the more has to be seen, and the more of it may have been luck."""
    costs = {
        on: np.mean([f.cost_micro_usd for f in FACTS if f.configuration == on])
        for on in (USUAL, OTHER)
    }
    seen = 1 - costs[OTHER] / costs[USUAL]
    easily, just, not_at_all = drawn(1), drawn(27), drawn(81)
    assert easily[1] == pytest.approx(seen, abs=0.005)
    assert just[1] < seen - 0.01
    assert just[0] < easily[0] - 0.02
    assert not_at_all is None
