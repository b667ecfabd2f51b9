"""Runs that hold GPUs and do not use them: their owners are warned, and by policy they stop."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import anyio
from anyio.abc import TaskGroup
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import ArtifactCreate

from gpu_core.adapters.prefect.artifacts import find_artifact, write_artifact
from gpu_core.decisions.policy.idle import IdlePolicy
from gpu_core.decisions.telemetry.idle_state import IdleFinding, RunUse, idle_state
from gpu_core.decisions.telemetry.metrics import JudgedUse
from gpu_core.decisions.telemetry.use_markdown import USE_KEY, idle_markdown, idle_warning
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.attempts.run_log import run_log
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import Infrastructure
from gpu_core.worker.operations.metrics import hourly_cost
from gpu_core.worker.operations.throttle import Throttle
from gpu_core.worker.watch.notifications import LoadBlock, load_block, notify

_log = logging.getLogger("prefect.gpu.idle")

# The states change over minutes.
_EVERY_S = 15.0


@dataclass(frozen=True, slots=True)
class _Warned:
    """A warning that was sent to an owner."""

    at: datetime
    since: datetime | None


class IdleWatch:
    """Judges the attempts of this worker every 15 s.

    An attempt that another worker has warned before is warned again: it is stopped only a whole
    grace after a warning of this worker.

    Args:
        client: Prefect's.
        attempts: What runs.
        infrastructure: Knows what their GPUs do.
        tasks: Where warnings are sent, so that a slow webhook delays no cycle.
        load: Reads a saved notification block.
    """

    def __init__(
        self,
        client: PrefectClient,
        attempts: AttemptRegistry,
        infrastructure: Infrastructure,
        tasks: TaskGroup,
        load: LoadBlock = load_block,
    ) -> None:
        self._client = client
        self._attempts = attempts
        self._infrastructure = infrastructure
        self._tasks = tasks
        self._load = load
        self._turns = Throttle(_EVERY_S)
        self._warned: dict[str, _Warned] = {}
        self._uses: Mapping[str, JudgedUse] = {}

    async def idle(self, policy: IdlePolicy, now: datetime) -> list[tuple[AttemptState, str]]:
        """The attempts that must stop as idle, each with the reason. Also warns."""
        if policy.action == "off" or not self._turns.allows(anyio.current_time()):
            return []
        uses, stopped = {}, []
        for running in self._attempts:
            if not running.phase.is_up or not running.attempt.gpu_ids:
                continue
            with self._attempts.faults.of_run(running, "judged by its use", now):
                finding = await self._find(running, policy, now)
                if finding is None:
                    continue
                uses[running.attempt.attempt_id] = _judged_use(running, finding)
                if self._is_over(running, finding, policy, now):
                    stopped.append((running, finding.text))
        self._uses = uses
        self._warned = {key: said for key, said in self._warned.items() if key in uses}
        return stopped

    def uses(self) -> list[JudgedUse]:
        """The use that each attempt makes of its GPUs as it was judged last, for the metrics."""
        holding = (running.attempt.attempt_id for running in self._attempts.holding())
        return [self._uses[each] for each in holding if each in self._uses]

    async def _find(
        self, running: AttemptState, policy: IdlePolicy, now: datetime
    ) -> IdleFinding | None:
        observed = await self._infrastructure.observed_use(running)
        if observed.activity is None:
            return None
        reports = observed.progress
        use = RunUse(
            progressed_at=max((each.progressed_at for each in reports), default=None),
            used_at=max((each.used_at for each in reports if each.used_at), default=None),
        )
        return idle_state(observed.activity, use, running.record.workload_type, policy, now)

    def _is_over(
        self, running: AttemptState, finding: IdleFinding, policy: IdlePolicy, now: datetime
    ) -> bool:
        """Is it idle still, a grace after its owner was warned? The first time it is warned."""
        attempt_id = running.attempt.attempt_id
        warned = self._warned.get(attempt_id)
        if not finding.is_idle:
            if warned is not None:
                del self._warned[attempt_id]
                run_log(running).info("Using its GPUs again: %s", finding.text)
                self._tasks.start_soon(self._show, running, finding, policy, now, None)
            return False
        grace = timedelta(seconds=policy.grace_s)
        if warned is None:
            self._warned[attempt_id] = _Warned(now, finding.since)
            stops_at = now + grace if policy.action == "stop" else None
            run_log(running).warning(
                "%s", idle_warning(finding, *self._cost(running, now, stops_at))
            )
            self._tasks.start_soon(self._show, running, finding, policy, now, stops_at)
            self._tasks.start_soon(self._notify, running, finding, policy, now, stops_at)
            return False
        return policy.action == "stop" and now - warned.at >= grace

    @staticmethod
    def _cost(
        running: AttemptState, now: datetime, stops_at: datetime | None
    ) -> tuple[float | None, datetime, datetime | None]:
        hourly = hourly_cost(running.record, running.attempt).micro_usd
        return hourly, now, stops_at

    async def _show(
        self,
        running: AttemptState,
        finding: IdleFinding,
        policy: IdlePolicy,
        now: datetime,
        stops_at: datetime | None,
    ) -> None:
        """On the run's page, as an artifact that is edited in place."""
        try:
            found = await find_artifact(self._client, USE_KEY, running.flow_run_id)
            artifact = ArtifactCreate(
                key=USE_KEY,
                type="markdown",
                description=finding.text,
                data=idle_markdown(finding, policy, *self._cost(running, now, stops_at)),
                flow_run_id=UUID(running.flow_run_id),
            )
            await write_artifact(self._client, artifact, None if found is None else found.id)
        except Exception:  # its log has the warning
            _log.warning(
                "Failed to update the GPU usage report for flow run %r",
                running.record.name,
                exc_info=True,
            )

    async def _notify(
        self,
        running: AttemptState,
        finding: IdleFinding,
        policy: IdlePolicy,
        now: datetime,
        stops_at: datetime | None,
    ) -> None:
        name = running.record.name
        subject = f"Run {name!r} is not using its GPUs"
        body = idle_warning(finding, *self._cost(running, now, stops_at))
        about = f"Idle run {name!r}"
        while not await notify(policy.notify, about, subject, body, self._load):
            await anyio.sleep(60)
            if running.attempt.attempt_id not in self._warned:
                return


def _judged_use(running: AttemptState, finding: IdleFinding) -> JudgedUse:
    return JudgedUse(
        team=running.record.team,
        state=finding.state,
        gpus=running.attempt.gpu_count,
        is_idle=finding.is_idle,
        hourly_micro_usd=hourly_cost(running.record, running.attempt).micro_usd,
    )
