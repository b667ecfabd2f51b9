"""Spot or on-demand under a deadline, on a machine where some virtual GPUs play spot."""

from functools import partial

from gpu_core.decisions.costs.usage.usage_cost import usage_until
from gpu_core.decisions.model.attempts import EndReason
from tests.end_to_end.conftest import FLOWS
from tests.support.waiting import wait_for

POLICY = """
version: 1
prices: {a100-80gb: {on-demand: 3.6, spot: 1.5}}
virtual_gpus: {gpu_type: a100-80gb, count: 2, spot: 2}
preemption: {grace_period: 20s, min_runtime: 0s}
checkpoints: {interval: 1s}
"""


def test_who_has_time_waits_for_spot_and_who_has_not_is_on_on_demand(new_pool, journal, tmp_path):
    """Both read why, with the numbers."""
    pool, release = new_pool(POLICY), tmp_path / "release"
    holding = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(600, release))
    holder = pool.submit(holding, "holder", gpu_count=2)
    pool.start_worker()
    wait_for(lambda: journal.entries("begin"), "the holder has all of spot")
    assert [attempt.capacity_type for attempt in pool.attempts(holder)] == ["spot"]

    working = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables())
    patient = pool.submit(working, "patient", deadline="20h", expected_duration="1h")
    pressed = pool.submit(working, "pressed", deadline="80m", expected_duration="1h")
    # With a changeover $1.80 on spot and $4.32 on on-demand, half of which is free.
    thrifty = pool.submit(working, "thrifty", budget_usd=4, expected_duration="1h")
    pool.wait_until(pressed, "Completed")
    pool.wait_until(patient, "WaitingForSpot")
    assert "Waiting for spot: unavailable for " in pool.message(patient)
    assert "on-demand costs 2.40 times spot" in pool.message(patient)
    assert "if a start loses at most 12m 00s (0 of 3 measured)" in pool.message(patient)

    pool.wait_until(thrifty, "WaitingForSpot")
    assert "with $1.80 required on spot and $4.32 on on-demand" in pool.message(thrifty)

    release.touch()
    pool.wait_until(patient, "Completed")
    pool.wait_until(thrifty, "Completed")
    assert [attempt.capacity_type for attempt in pool.attempts(pressed)] == ["on-demand"]
    assert [attempt.capacity_type for attempt in pool.attempts(patient)] == ["spot"]
    assert [attempt.capacity_type for attempt in pool.attempts(thrifty)] == ["spot"]
    for run, rule in (
        (
            pressed,
            (
                "Capacity: on-demand: waiting or switching again could cause the deadline "
                "to be missed"
            ),
        ),
        (patient, "Capacity: spot: spot is up; slack 18h"),
        (thrifty, "Capacity: spot: the budget is sufficient for spot only; $4.00"),
    ):
        wait_for(partial(logged, pool, run, rule), f"in the run's log: {rule}")


def logged(pool, run, text):
    """Is this in the run's log on its page?"""
    return any(text in line for line in pool.logs(run))


DOLLAR_A_SECOND = """
version: 1
prices: {a100-80gb: {on-demand: 3600}}
virtual_gpus: {gpu_type: a100-80gb, count: 2}
preemption: {grace_period: 20s, min_runtime: 0s}
"""


def test_a_budget_refuses_what_it_cannot_hold_and_stops_what_has_used_it_up(new_pool, journal):
    """A look of a minute and 20 s of grace cost $80: of $84 a few seconds are left."""
    pool = new_pool(DOLLAR_A_SECOND)
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(600))
    spender = pool.submit(deployment, "spender", budget_usd=84)
    hopeless = pool.submit(deployment, "hopeless", budget_usd=84, expected_duration="10m")
    pool.start_worker()

    pool.wait_until(hopeless, "Failed")
    assert "OverBudget: $600.00 at least" in pool.message(hopeless)
    assert pool.attempts(hopeless) == ()
    pool.wait_until(spender, "Failed")
    assert "Budget spent: " in pool.message(spender)
    wait_for(lambda: pool.attempts(spender)[0].released_at, "its end is written down")
    (attempt,) = pool.attempts(spender)
    assert attempt.end_reason is EndReason.BUDGET_SPENT
    assert usage_until(attempt, attempt.released_at).micro_usd <= 84_000_000
