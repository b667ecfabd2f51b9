"""Runs with variables of all kinds, through the whole path from the queue into the ledger.

Whatever they say, no cycle is lost, none of them meets an unexpected error, and the run that is
first in the queue starts in the cycle that sees it. `PREFECT_GPU_GENERATED_S` sets for how long.
"""

import os
import random
import time

import anyio
import pytest
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.decisions.requests.runs.run_tags import FIRST_TAG
from gpu_core.testing.builders.workloads import make_node
from tests.support.examples import examples
from tests.support.job_variables import BEYOND, generated
from tests.support.pool import FakePrefect, OnePool, run_id
from tests.support.postgresql import new_database

# At least so many rounds of so many runs, however long one takes.
_ROUNDS = examples(12)
_RUNS = 30
# A millionth of a dollar or a second are spent before the third cycle.
_OWN_LIMITS = ("budget_usd", "max_duration", "deadline")
_LONGEST_S = float(os.environ.get("PREFECT_GPU_GENERATED_S", "0"))

POLICY = parse_policy(
    {
        "version": 1,
        "prices": {"t4": {"on-demand": 1, "spot": 0.3}, "a10g": {"on-demand": 2}},
        "ordering": {"keys": ["priority", "fair-share", "deadline-slack"]},
        "budgets": [{"name": "all", "scope": "pool", "period": "day", "usd": 1_000_000}],
        "capacity": {"at_budget": "stop"},
    }
)
NODES = (
    make_node("n1", gpus=8, gpu_type="t4"),
    make_node("n2", gpus=8, gpu_type="t4", capacity_type="spot"),
    make_node("n3", gpus=8, gpu_type="a10g"),
)


async def one_round(pool, seed):
    """What became of the runs of this seed, after two cycles, and of the run that is first."""
    rng = random.Random(seed)
    first = _RUNS * seed
    known = [{name: value} for name, values in BEYOND.items() for value in values]
    drawn = [generated(rng) for _ in range(_RUNS - 1)]
    # One of those that once went through in each round, alone: with others they are refused anyway.
    drawn[0] = known[seed % len(known)]
    inputs = dict(enumerate(drawn, start=first + 1))
    key = pool.prefect.submit(first, {}, tags=[FIRST_TAG])
    for number, variables in inputs.items():
        pool.prefect.submit(number, variables)
    async with pool.scheduling():
        admitted = await pool.cycle()
        assert key in admitted, f"seed {seed}"
        again = await pool.cycle()
        await pool.cycle()
        assert pool.scheduler._faults._faults == {}, f"seed {seed}"
        assert not admitted & again, f"seed {seed}"
        holding = pool.holding()
        assert key in holding, f"seed {seed}"
        assert holding <= admitted | again, f"seed {seed}"
        for number, variables in inputs.items():
            message = pool.prefect.message(number)
            reported = pool.prefect.state(number)
            if run_id(number) in (admitted | again) - holding:
                is_own_limit = any(variables.get(name) is not None for name in _OWN_LIMITS)
                assert is_own_limit, f"seed {seed}, run {number}: {reported}, {variables!r:.500}"
                assert reported.startswith("Failed: "), f"seed {seed}, run {number}: {reported}"
            assert "InternalError" not in reported, f"seed {seed}, run {number}: {reported}"
            is_reported = run_id(number) in admitted | again or message
            assert is_reported, f"seed {seed}, run {number}: {variables!r:.500}"
    return len(admitted | again)


@pytest.mark.parametrize(
    "database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]
)
def test_no_input_costs_another_run_its_turn(request, tmp_path, database):
    url = (
        f"sqlite:///{tmp_path / 'ledger.db'}"
        if database == "sqlite"
        else new_database(request.getfixturevalue("postgresql"))
    )
    until_s, seed, started = time.monotonic() + _LONGEST_S, 0, 0
    with (
        temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}),
        Ledger.open(url) as ledger,
    ):
        while seed < _ROUNDS or time.monotonic() < until_s:
            seed += 1
            pool = OnePool(tmp_path, ledger, FakePrefect(), NODES, POLICY, name=f"pool-{seed}")
            started += anyio.run(one_round, pool, seed)
    assert started > seed * 3, "hardly any of them ran: nothing was tested"
