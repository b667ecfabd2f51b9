"""A planner with a stopwatch: how long each cycle took."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime

from gpu_core.decisions.model.cluster import Node, Usage
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.scheduling.plan import Plan
from gpu_core.decisions.scheduling.planner import Planner


class TimedPlanner(Planner):
    """The planner; `cycle_s` has the CPU seconds of each call of `plan`."""

    def __init__(self, policy: Policy, nodes: Sequence[Node]) -> None:
        super().__init__(policy, nodes)
        self.cycle_s: list[float] = []

    def plan(
        self,
        now: datetime,
        *,
        usage: Usage | None = None,
        preemptors: frozenset[str] = frozenset(),
        idle_since: Mapping[str, datetime] | None = None,
        explain: bool = True,
    ) -> Plan:
        """As `Planner.plan`."""
        began_s = time.process_time()
        plan = super().plan(
            now, usage=usage, preemptors=preemptors, idle_since=idle_since, explain=explain
        )
        self.cycle_s.append(time.process_time() - began_s)
        return plan
