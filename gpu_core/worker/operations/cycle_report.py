"""The log line and the metrics of a cycle."""

from collections.abc import Collection, Mapping, Sequence

import anyio

from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.scheduling.plan.plan import Plan, Preempt
from gpu_core.decisions.telemetry.gpu_groups import gpu_groups
from gpu_core.decisions.telemetry.metrics import withheld_micro_usd
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.operations.cycle_log import CycleCounts, CycleLog, StepTimes
from gpu_core.worker.operations.metrics import WorkerMetrics
from gpu_core.worker.pending.demand import Demand
from gpu_core.worker.watch.hung_runs import HangWatch
from gpu_core.worker.watch.idle_runs import IdleWatch


class CycleReport:
    """Logs the cycles of one pool and counts them among the metrics.

    Args:
        attempts: The attempts of the pool.
        metrics: What is exported.
        idle: What runs use.
        hangs: Which runs are hung.
    """

    def __init__(
        self,
        attempts: AttemptRegistry,
        metrics: WorkerMetrics,
        idle: IdleWatch,
        hangs: HangWatch,
    ) -> None:
        self._attempts = attempts
        self._metrics = metrics
        self._idle = idle
        self._hangs = hangs
        self._log = CycleLog()

    def note(
        self,
        nodes: Sequence[Node],
        plan: Plan,
        demands: Mapping[str, Demand],
        admitted: Collection[str],
        steps: StepTimes,
        policy: Policy,
    ) -> None:
        """A cycle is over.

        Args:
            nodes: The nodes that it planned with.
            plan: Its plan.
            demands: The runs that were pending, by id.
            admitted: Those of them that start.
            steps: How long each step took.
            policy: The policy, with the prices that runs pay now.
        """
        holding = [running.attempt for running in self._attempts.holding()]
        placed = [attempt for attempt in holding if attempt.bound_at is not None]
        used = {(share.node, gpu) for a in placed for share in a.held for gpu in share.gpu_ids}
        there = [node for node in nodes if not node.is_planned]
        known = {(node.name, gpu) for node in there for gpu in node.gpu_ids}
        unhealthy = {(node.name, gpu) for node in there for gpu in node.unhealthy_gpu_ids}
        pending = [demand for run_id, demand in demands.items() if run_id not in admitted]
        counts = CycleCounts(
            pending=len(pending),
            held=sum(demand.workload.hold is not None for demand in pending),
            started=len(admitted),
            preempted=sum(isinstance(command, Preempt) for command in plan.commands),
            running=len(holding),
            gpus_used=len(used & known),
            gpus_free=len(known - used - unhealthy),
        )
        self._log.note(counts, steps.seconds, steps.cpu_s, now_s=anyio.current_time())
        runs = [(running.record, running.attempt) for running in self._attempts.holding()]
        held = {gpu_id for _node, gpu_id in used}
        gpus = gpu_groups(there, used)
        withheld = withheld_micro_usd(gpus, policy.price_micro_usd_per_gpu_hour)
        self._metrics.note_cycle(counts, steps.seconds, gpus, held, runs, withheld)
        self._metrics.note_use(self._idle.uses(), len(self._hangs.hung))
