"""What a settlement that is applied for the second time does."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.states import Cancelled, Cancelling, Running

from gpu_core.decisions.accounting import EndReason
from gpu_core.decisions.request import GpuRequest, RunLimits
from gpu_core.decisions.workload import Workload
from gpu_core.worker.running import RunningAttempt
from gpu_core.worker.settlement import decide, to_record
from tests.gpu_core.accounting_builders import make_attempt, make_run

NOW = datetime.now(UTC)
RUN = "11111111-1111-1111-1111-111111111111"


def preempted(run_dir):
    """An attempt that was preempted and has ended."""
    attempt = make_attempt(
        RUN,
        admitted_at=NOW - timedelta(hours=1),
        started_at=NOW - timedelta(hours=1),
        drain_requested_at=NOW - timedelta(minutes=1),
        drain_reason=EndReason.PREEMPTED,
    )
    return RunningAttempt(
        attempt=attempt,
        record=make_run(RUN),
        workload=Workload(workload_id=RUN, name="run", priority=1, submitted_at=NOW, gpu_count=1),
        request=GpuRequest(),
        limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
        run_dir=run_dir,
    )


def flow_run(state):
    return FlowRun(id=UUID(RUN), flow_id=uuid4(), state=state)


@pytest.mark.parametrize(
    ("state_then", "want_next_state"),
    [
        pytest.param(Running(), "AwaitingRetry", id="nothing happened: the same decision"),
        pytest.param(Cancelling(), "Cancelled", id="a person is cancelling it: cancelled"),
        pytest.param(Cancelled(), None, id="a person has cancelled it: it stays cancelled"),
    ],
)
def test_a_remembered_decision_stands_unless_a_person_cancelled_the_run(
    tmp_path, state_then, want_next_state
):
    """Prefect could not be told for a while: what people did meanwhile counts."""
    running = preempted(tmp_path)
    first = decide(running, flow_run(Running()), None, (), NOW)
    assert first.settlement.next_state == "AwaitingRetry"
    running.attempt = replace(running.attempt, settlement=to_record(first))

    again = decide(running, flow_run(state_then), None, (), NOW + timedelta(hours=1))

    assert again.settlement.next_state == want_next_state
