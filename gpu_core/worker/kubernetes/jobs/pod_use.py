"""GPU metrics of running pods, from the policy's Prometheus."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio

from gpu_core.adapters.prometheus.queries import PrometheusError, query_range
from gpu_core.decisions.model.cluster import Allocation, Node
from gpu_core.decisions.model.measurements import Measurements
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.telemetry.activity import RunActivity
from gpu_core.decisions.telemetry.cluster_use import (
    STEP_S,
    ClusterUse,
    Pod,
    cluster_queries,
    folded_activity,
    load_by_node,
    utilization_of,
)
from gpu_core.decisions.telemetry.planning import measurements_of
from gpu_core.worker.attempts.state import AttemptState

_log = logging.getLogger("prefect.gpu.telemetry")

_ANSWER_S = 10.0

# Points that are older say nothing of now.
_LATE = timedelta(minutes=2)

PodsOf = Callable[[str], Sequence[Mapping[str, Any]]]
"""The pods of an attempt, by its id."""


class PodUse:
    """Asks every 30 s about the GPUs of our nodes and pods, in the background.

    No cycle waits for an answer.

    Without an address, or an answer, nothing is known, and nothing is decided from it. A failure is
    said once.

    Args:
        pods_of: What the cluster has of an attempt.
        nodes: The names of our nodes.
        namespaces: Those of our pods.
        answer_s: How long both questions may take.
    """

    def __init__(
        self,
        pods_of: PodsOf,
        nodes: Callable[[], Collection[str]],
        namespaces: Callable[[], Collection[str]],
        answer_s: float = _ANSWER_S,
    ) -> None:
        self._pods_of = pods_of
        self._nodes = nodes
        self._namespaces = namespaces
        self._answer_s = answer_s
        self._policy: Policy | None = None
        self._use = ClusterUse()
        self._activities: dict[str, RunActivity] = {}
        self._failure: str | None = None

    def set_policy(self, policy: Policy) -> None:
        """Follow this policy from the next question on."""
        self._policy = policy

    async def run(self) -> None:
        """Ask until it is cancelled."""
        while True:
            await self.ask(datetime.now(UTC))
            await anyio.sleep(STEP_S)

    async def ask(self, now: datetime) -> None:
        """Ask once, if the policy has use for an answer."""
        policy = self._policy
        url = None if policy is None else policy.telemetry.prometheus_url
        if policy is None or url is None or not _has_use(policy):
            self._use = ClusterUse()
            return
        kept_s = max(policy.telemetry.planning_window_s or 0, _LATE.total_seconds())
        kept = self._use.since(now - timedelta(seconds=kept_s))
        try:
            with anyio.fail_after(self._answer_s):
                points = [
                    point
                    for query in cluster_queries(now, self._nodes(), self._namespaces())
                    for point in await query_range(url, query, self._answer_s)
                ]
            self._use = kept.with_points(points)
        except (PrometheusError, TimeoutError) as error:
            self._note_failure(
                str(error) or f"the request to {url} timed out after {self._answer_s:g} seconds"
            )
            return
        except Exception as error:
            # An answer of any content stops no worker: it shares a task group with all else.
            self._note_failure(f"unexpected response from {url}: {error!r}")
            return
        if self._failure is not None:
            _log.warning("GPU usage metrics for running pods are available again")
            self._failure = None

    def activity(self, running: AttemptState) -> RunActivity | None:
        """The activity of the GPUs of this attempt; None: unknown, or it has parts of GPUs."""
        attempt = running.attempt
        if not running.workload.shape.is_whole or not attempt.gpu_count:
            return None
        found = folded_activity(
            self._activities.get(attempt.attempt_id),
            self._use,
            self._pods(attempt.attempt_id),
            attempt.gpu_count,
            attempt.started_at or attempt.admitted_at,
        )
        if found is not None:
            self._activities[attempt.attempt_id] = found
        return found

    def forget(self, attempt_id: str) -> None:
        """Forget an attempt that has ended."""
        self._activities.pop(attempt_id, None)

    def measurements(
        self,
        attempts: Sequence[AttemptState],
        nodes: Sequence[Node],
        allocations: Sequence[Allocation],
        now: datetime,
    ) -> Measurements:
        """The measurements of the last minutes that plans may read.

        None of them, unless the policy says so.
        """
        window_s = None if self._policy is None else self._policy.telemetry.planning_window_s
        if window_s is None or not self._is_fresh(now):
            return Measurements()
        since = now - timedelta(seconds=window_s)
        use = self._use.since(since)
        utilization = {
            running.workload.workload_id: utilization_of(
                use, self._pods(running.attempt.attempt_id), running.attempt.gpu_count
            )
            for running in attempts
            if running.attempt.gpu_count
        }
        return measurements_of(
            nodes,
            allocations,
            since,
            load_ratio=load_by_node(use),
            utilization={key: ratio for key, ratio in utilization.items() if ratio is not None},
        )

    def _is_fresh(self, now: datetime) -> bool:
        devices = self._use.devices
        return bool(devices) and abs(now - devices[-1].sample.at) <= _LATE

    def _pods(self, attempt_id: str) -> set[Pod]:
        found = (pod["metadata"] for pod in self._pods_of(attempt_id))
        return {(str(each["namespace"]), str(each["name"])) for each in found}

    def _note_failure(self, failure: str) -> None:
        if self._failure is None:
            _log.warning("GPU usage metrics for running pods are unavailable: %s", failure)
        self._failure = failure


def _has_use(policy: Policy) -> bool:
    is_judged = policy.idle.action != "off" or policy.hangs.action != "off"
    return is_judged or policy.telemetry.planning_window_s is not None
