"""Who is looked at, and how often."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from gpu_core.adapters.files.run_files import CheckpointReport
from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.workload import RunTime, RunTimeSource
from gpu_core.decisions.requests.runs.run_workload import RunLimits
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.decisions.spot.availability_tracker import SpotAvailabilityTracker
from gpu_core.decisions.spot.capacity_view import CapacityView
from gpu_core.testing.builders.attempts import at, make_attempt, make_run, record_ended
from gpu_core.testing.builders.workloads import make_node, make_policy, make_workload
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.watch.migration import MigrationWatch

NODES = (
    make_node("s1", gpus=1, gpu_type="a10g", capacity_type="spot"),
    make_node("node-1", gpus=1, gpu_type="a10g"),
)
POLICY = make_policy(prices={"a10g": {"spot": 0.4, "on-demand": 1.0}})


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as opened:
        yield opened


def running(capacity_type="auto", **fields):
    """On on-demand since noon, saved an hour later."""
    attempt = make_attempt(number=2, node="node-1", gpu_ids=("0",), started_at=at(0))
    return AttemptState(
        attempt=replace(attempt, **fields),
        record=make_run(),
        workload=make_workload(
            "run-1",
            submitted_at=at(0),
            deadline_at=at(40),
            run_time=RunTime(median_s=72_000, upper_s=72_000, source=RunTimeSource.STATED),
        ),
        request=GpuRequest(capacity_type=capacity_type),
        limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
        run_dir=Path("unused"),
        report=CheckpointReport(attempt_id=attempt.attempt_id, checkpoint="k", saved_at=at(1)),
    )


def looks(ledger, taken, hours):
    """Whom the looks at these hours after noon find."""
    attempts = AttemptRegistry("gpus", "host-1", Path("unused"), ledger)
    attempts._open[taken.attempt.attempt_id] = taken
    changes, availability = MigrationWatch(ledger, attempts), SpotAvailabilityTracker()

    def found_at(hour):
        def view():
            return CapacityView(
                NODES, POLICY, at(hour), allocations=[taken.allocation()], availability=availability
            )

        return [decision for _, decision in anyio.run(changes.due, view, at(hour))]

    return [[str(decision.capacity) for decision in found_at(hour)] for hour in hours]


def test_every_minute_a_run_is_asked_whether_spot_has_proved_itself(ledger):
    """The look half a minute after the second says nothing, whatever is there."""
    assert looks(ledger, running(), [1, 5, 5.008, 5.02]) == [[], ["spot"], [], ["spot"]]


@pytest.mark.parametrize(
    "taken",
    [
        pytest.param(running("on-demand"), id="its owner wants on-demand"),
        pytest.param(running(started_at=None), id="it has not begun"),
        pytest.param(running(drain_requested_at=at(4)), id="it gives way already"),
    ],
)
def test_who_is_left_alone(ledger, taken):
    assert looks(ledger, taken, [1, 5]) == [[], []]


@pytest.mark.parametrize(
    ("budget_usd", "want"),
    [pytest.param(19.9, ["spot"], id="not paid for"), pytest.param(20.1, [], id="paid for")],
)
def test_what_it_has_cost_until_now_counts_against_its_budget(ledger, budget_usd, want):
    """$1 after an hour, and 19 h more on on-demand. Spot has not proved itself yet."""
    taken = running()
    taken.workload = replace(taken.workload, budget_micro_usd=round(budget_usd * 1_000_000))
    assert looks(ledger, taken, [1]) == [want]


def test_what_became_of_its_earlier_attempts_counts(ledger):
    """One interruption, with a policy of one and half a day: spot is not tried again."""
    cut = make_attempt(
        gpu_type="t4",
        capacity_type="spot",
        admitted_at=at(-1.1),
        released_at=at(-1),
        end_reason=EndReason.INTERRUPTED,
    )
    record_ended(ledger, cut)
    assert looks(ledger, running(), [1, 5]) == [[], ["spot"]]
    once = make_policy(
        prices={"a10g": {"spot": 0.4, "on-demand": 1.0}},
        capacity={
            "max_spot_interruptions": 1,
            "elsewhere": {"first_backoff": "12h", "longest_backoff": "12h"},
        },
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.gpu_core.worker.watch.test_migration.POLICY", once)
        assert looks(ledger, running(), [1, 5]) == [[], []]
