"""Runs that ask for a GPU, as a poll of the queues finds them."""

from datetime import UTC, datetime

from prefect.client.schemas.objects import FlowRun

from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.requests.runs.run_workload import RunLimits
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.worker.pending.demand import Demand


def make_demand(flow_run: FlowRun) -> Demand:
    """The run with one GPU and no variables of its own."""
    return Demand(
        flow_run=flow_run,
        flow_name="train",
        deployment=None,
        queue="medium",
        request=GpuRequest(),
        limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
        workload=Workload(
            workload_id=str(flow_run.id),
            name="run",
            priority=1,
            submitted_at=datetime.now(UTC),
        ),
    )
