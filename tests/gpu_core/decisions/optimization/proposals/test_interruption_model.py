"""How long work holds its GPUs where it is interrupted, against what is known in closed form."""

import math
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.optimization.proposals.interruption_model import (
    Hazard,
    checkpoint_interval_s,
    observed_hazard,
    prior_hazard,
    simulated_held_s,
)
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.run_facts import run_facts
from gpu_core.decisions.optimization.proposals.spot_proposals import spot_hazard
from gpu_core.testing.builders.attempts import NOON, at, make_attempt, make_run


def simulated(work_s, rate_per_hour, interval_s, startup_s=0.0, count=20_000):
    full = np.full(count, 1.0)
    return simulated_held_s(
        full * work_s, full * rate_per_hour, full * startup_s, interval_s, np.random.default_rng(7)
    )


@pytest.mark.parametrize("rate_per_hour", [0.05, 0.3, 1.0])
def test_without_checkpoints_the_mean_is_that_of_restarts(rate_per_hour):
    """(exp(λw) − 1) / λ: Daly, "A higher order estimate", Future Gener. Comput. Syst. 22, 2006."""
    want_h = (math.exp(rate_per_hour * 2) - 1) / rate_per_hour
    assert simulated(7200, rate_per_hour, None).mean() / 3600 == pytest.approx(want_h, rel=0.05)


def test_with_checkpoints_an_interruption_loses_half_an_interval():
    """So rare that hardly a run has two: work, and λ·w times half an interval."""
    lost_s = simulated(7200, 0.05, 600.0).mean() - 7200
    assert lost_s == pytest.approx(0.05 * 2 * 300, rel=0.15)


@given(
    work_s=st.floats(0, 1e5),
    rate=st.floats(0, 1),
    interval_s=st.floats(1, 1e4),
    startup_s=st.floats(0, 600),
)
@example(work_s=0.0, rate=sys.float_info.min / 2, interval_s=1.0, startup_s=0.0)
def test_work_never_takes_less_than_its_time(work_s, rate, interval_s, startup_s):
    held_s = simulated(work_s, rate, interval_s, startup_s, count=20)
    assert (held_s >= work_s + startup_s - 1e-6).all()
    if not rate:
        assert held_s == pytest.approx(work_s + startup_s)


def test_rates_that_fit_become_narrow_with_exposure():
    rng = np.random.default_rng(1)
    few, many = (Hazard(interruptions=n, exposure_h=n * 10.0).draws(rng, 4000) for n in (3, 300))
    assert many.mean() == pytest.approx(0.1, rel=0.03)
    assert many.std() < few.std() / 5
    assert not Hazard(interruptions=0, exposure_h=0.0).draws(rng, 3).any()


def test_only_capacity_that_was_lost_counts_as_interrupted():
    ends = [EndReason.INTERRUPTED, EndReason.PREEMPTED, EndReason.FAILED, EndReason.COMPLETED]
    attempts = [make_attempt(released_at=at(2), end_reason=end) for end in ends]
    assert observed_hazard(attempts) == Hazard(interruptions=1, exposure_h=8.0)


def test_the_prior_of_spot_is_higher_in_the_first_minutes():
    assert prior_hazard(600).per_hour > prior_hazard(20 * 3600).per_hour > 0


@pytest.mark.parametrize(
    ("fields", "want_s"),
    [
        pytest.param({}, None, id="no checkpoint was seen"),
        pytest.param({"expected_loss_s": 120.0}, 240.0, id="the flow measures its loss"),
        pytest.param({"checkpointed_at": at(0.5)}, 3600.0, id="half an hour was lost"),
    ],
)
def test_the_interval_of_checkpoints_is(fields, want_s):
    ended = make_attempt(released_at=at(1), end_reason=EndReason.INTERRUPTED, **fields)
    done = make_attempt(
        number=2, admitted_at=at(1), released_at=at(2), end_reason=EndReason.COMPLETED
    )
    window = Period.before(at(48).date(), days=7).window
    facts = run_facts([(make_run(submitted_at=NOON), (ended, done))], window, at(50))
    assert len(facts) == 1
    assert checkpoint_interval_s(facts) == want_s


def test_attempts_that_held_nothing_for_any_time_do_not_say_that_spot_is_never_interrupted():
    """One that was released at once is no observation: the rate is that of the prior."""
    gone_at_once = make_attempt(
        "a", capacity_type="spot", admitted_at=NOON, released_at=NOON,
        end_reason=EndReason.CANCELLED,
    )  # fmt: skip
    run = make_run("a", submitted_at=NOON)
    facts = run_facts([(run, (gone_at_once,))], Period.before(at(24).date()).window, at(24))
    assert len(facts) == 1
    hazard, source = spot_hazard("a10g", facts, 3600.0)
    assert hazard == prior_hazard(3600.0)
    assert "public traces" in source
