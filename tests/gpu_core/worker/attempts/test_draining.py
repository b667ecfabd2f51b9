"""How an attempt is asked to end, and how much of its grace period it gets to save."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from gpu_core.decisions.attempts.phase import AttemptPhase
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.requests.runs.run_workload import RunLimits
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.testing.builders.attempts import NOON, make_attempt, make_run
from gpu_core.worker.attempts.draining import drain, notice_window_s
from gpu_core.worker.attempts.state import AttemptState


@pytest.mark.parametrize(
    ("grace_s", "want_window_s"),
    [
        pytest.param(30, 24, id="most of it, and six seconds for Prefect"),
        pytest.param(8, 4, id="half of a short one"),
        pytest.param(0, 0, id="none of none"),
    ],
)
def test_the_window_before_sigterm(grace_s: float, want_window_s: float) -> None:
    """SIGTERM comes early enough for Prefect to end the flow before SIGKILL."""
    assert notice_window_s(grace_s) == want_window_s


class Machine:
    """Nothing lives on it any more; notes what it is asked to end."""

    def __init__(self, reads) -> None:
        self.asked: list[str] = []
        self._reads = reads

    def lives(self, _running) -> bool:
        return False

    def sees_its_cancellation(self, _running) -> bool:
        return False

    async def notify(self, running, _notice) -> None:
        self._reads(running)

    async def terminate(self, _running) -> None:
        self.asked.append("terminate")

    async def kill(self, _running) -> bool:
        self.asked.append("kill")
        return True


def draining() -> AttemptState:
    """An attempt that was asked to stop, and has ended since."""
    attempt = make_attempt(attempt_id="a", started_at=NOON)
    stopped = replace(
        attempt,
        released_at=None,
        end_reason=None,
        drain_requested_at=NOON,
        drain_reason=EndReason.PREEMPTED,
        drain_deadline_at=NOON + timedelta(seconds=30),
    )
    return AttemptState(
        attempt=stopped,
        record=make_run(stopped.flow_run_id),
        workload=Workload(workload_id="run-1", name="run", priority=1, submitted_at=NOON),
        request=GpuRequest(),
        limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
        run_dir=Path("unused"),
        phase_at_first=AttemptPhase.DRAINING,
    )


@pytest.mark.parametrize(
    ("phases", "want"),
    [
        pytest.param((), ["terminate", "kill"], id="not yet"),
        pytest.param(
            (AttemptPhase.ENDING, AttemptPhase.RELEASED),
            ["terminate", "kill"],
            id="its GPUs are free",
        ),
        pytest.param(
            (AttemptPhase.ENDING, AttemptPhase.RELEASED, AttemptPhase.SETTLED), [], id="settled"
        ),
    ],
)
def test_an_attempt_that_is_settled_while_it_gets_its_notice_is_not_ended_again(phases, want):
    """What the infrastructure notes of it after that, nothing makes it forget."""

    def settle(running):
        for phase in phases:
            running.move_to(phase, NOON)

    machine = Machine(settle)
    anyio.run(drain, draining(), machine, lambda: None)
    assert machine.asked == want
