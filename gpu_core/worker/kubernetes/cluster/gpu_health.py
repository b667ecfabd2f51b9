"""Judges the GPUs of a cluster by the Prometheus of the policy, and holds those not well."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import anyio

from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError
from gpu_core.adapters.kubernetes.api import Json
from gpu_core.adapters.prometheus.queries import PrometheusError, query_samples
from gpu_core.decisions.kubernetes.nodes.held_gpus import (
    HELD_ANNOTATION,
    free_command,
    held_annotation,
    held_on,
    withheld_gpus,
    without_held,
)
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.errors import sentences
from gpu_core.decisions.model.gpu_health import HealthVerdict, HeldGpu, move_reason
from gpu_core.decisions.model.units import count, format_usd
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.policy.telemetry import TelemetryPolicy
from gpu_core.decisions.telemetry.cluster_health import ClusterHealth, health_queries
from gpu_core.decisions.telemetry.health import HealthFinding
from gpu_core.decisions.telemetry.series import Series
from gpu_core.decisions.telemetry.xids import RULES_VERSION
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import TerminationRequest
from gpu_core.worker.kubernetes.cluster.cluster_cache import has_pod_ended
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights

_log = logging.getLogger("prefect.gpu.devices")

# What is hot moves within a minute of a scrape every 15 s.
_EVERY_S = 10.0
_ANSWER_S = 10.0

# A node whose device plugin withdraws a GPU and offers it again is said to be closed once in this
# time.
_CLOSED_EVERY_S = 3600.0

_FORGOTTEN = "held GPUs are released when the worker restarts"

_Key = tuple[str, str]
"""A node, and the UUID of a GPU."""


def _is_noted(node: Json) -> bool:
    return HELD_ANNOTATION in (node["metadata"].get("annotations") or {})


def _cost(node: Node, policy: Policy) -> str:
    """Of its GPUs that are withheld, for an hour."""
    price = policy.price_micro_usd_per_gpu_hour(node.gpu_type, node.capacity_type)
    return format_usd(None if price is None else price * withheld_gpus(node))


class GpuHealthWatch:
    """Asks in the background: no cycle waits for an answer.

    Without an address, or an answer, nothing is found. What is held stays held.

    Args:
        api: The cluster: what is held is noted on its node.
        nodes: The Node objects, by name.
        gpu_counts: How many GPUs each node has.
        may_act: Asked before everything that changes the cluster.
        rights: What the worker was refused.
        wake: Called when a GPU is held.
        answer_s: How long all questions may take.
        clock_s: Seconds that never go back.
    """

    def __init__(
        self,
        api: KubernetesApi,
        nodes: Callable[[], Mapping[str, Json]],
        gpu_counts: Callable[[], Mapping[str, int]],
        may_act: Callable[[], bool],
        rights: MissingRights,
        wake: Callable[[], None],
        answer_s: float = _ANSWER_S,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._nodes = nodes
        self._gpu_counts = gpu_counts
        self._may_act = may_act
        self._rights = rights
        self._wake = wake
        self._answer_s = answer_s
        self._clock_s = clock_s
        self._url: str | None = None
        self._health = ClusterHealth()
        self._unwritten: dict[_Key, HeldGpu] = {}
        self._written: set[_Key] = set()
        self._said: dict[_Key, HealthFinding] = {}
        self._failure: str | None = None
        self._closed_said_s: dict[str, float] = {}
        self.verdicts: Mapping[str, HealthVerdict] = {}
        """On the GPUs that are not well, by UUID: few of a large cluster. Any thread reads it."""

    def set_policy(self, policy: TelemetryPolicy) -> None:
        """Follow this policy from the next question on."""
        self._url = policy.prometheus_url

    async def run(self) -> None:
        """Ask until it is cancelled."""
        while True:
            await self.ask(datetime.now(UTC))
            await anyio.sleep(_EVERY_S)

    async def ask(self, now: datetime) -> None:
        """Ask once, and hold what is not well."""
        await self._ask(now)
        held = (gpu for name in self._affected() for gpu in self._held_on(name).values())
        found = {gpu_id: each.verdict for (_, gpu_id), each in self._health.findings.items()}
        self.verdicts = found | {gpu.gpu_id: gpu.verdict for gpu in held}

    async def _ask(self, now: datetime) -> None:
        counts = self._gpu_counts()
        if self._url is None or not counts:
            return
        try:
            with anyio.fail_after(self._answer_s):
                series = await self._samples(self._url, counts, now)
            self._health = self._health.with_series(series, counts, now)
        except (PrometheusError, TimeoutError) as error:
            self._note_failure(
                str(error)
                or f"the request to {self._url} timed out after {self._answer_s:g} seconds"
            )
            return
        except Exception as error:
            # An answer of any content stops no worker: it shares a task group with all else.
            self._note_failure(f"unexpected response from {self._url}: {error!r}")
            return
        if self._failure is not None:
            _log.warning("GPU health metrics are available again")
            self._failure = None
        self._judge()
        await self._write()

    async def _samples(
        self, url: str, counts: Mapping[str, int], now: datetime
    ) -> tuple[Series, ...]:
        found: tuple[Series, ...] = ()
        for query in health_queries(counts):
            found += await query_samples(url, query, now, self._answer_s)
        return found

    def without_held(self, nodes: Sequence[Node], policy: Policy) -> tuple[Node, ...]:
        """The nodes, without new runs where a pod may get a GPU that is held.

        Args:
            nodes: As their device plugins offer them.
            policy: Knows what the GPUs cost that get no runs.
        """
        held = {name: self._held_on(name) for name in self._affected()}
        left = tuple(without_held(node, held.get(node.name, {}).values()) for node in nodes)
        now_s = self._clock_s()
        self._closed_said_s = {
            name: said_s
            for name, said_s in self._closed_said_s.items()
            if held.get(name) and now_s - said_s < _CLOSED_EVERY_S
        }
        for node in left:
            if withheld_gpus(node) and node.name not in self._closed_said_s:
                self._closed_said_s[node.name] = now_s
                self._say_closed(node, policy)
        return left

    def _say_closed(self, node: Node, policy: Policy) -> None:
        _log.warning(
            "No new runs are scheduled on node %s until its device plugin withdraws the "
            "held GPUs. Its other %s may be idle, costing %s per hour",
            *(node.name, count(withheld_gpus(node), "GPU"), _cost(node, policy)),
        )

    def trouble(
        self, running: AttemptState, pods: Sequence[Json], now: datetime
    ) -> TerminationRequest | None:
        """Must this attempt leave a GPU that is held? Only where it is certain that it has it.

        Args:
            running: The attempt.
            pods: Its pods.
            now: Aware.
        """
        affected = {str(pod["spec"].get("nodeName")) for pod in pods}
        affected = {name for name in affected if self._is_affected(name)}
        if not affected:
            return None
        own = {
            (str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"]))
            for pod in pods
            if not has_pod_ended(pod)
        }
        found = []
        for name in affected:
            for gpu_id, gpu in self._held_on(name).items():
                if own & self._health.pods_on([gpu_id], now) or self._has_all(running, name):
                    found.append(gpu)
        if not found:
            return None
        return TerminationRequest(reason=EndReason.INTERRUPTED, message=move_reason(found))

    def _has_all(self, running: AttemptState, node: str) -> bool:
        """Does it hold all GPUs of this node, so that it has the one that is held?"""
        count = self._gpu_counts().get(node)
        return running.attempt.bound_at is not None and any(
            share.node == node
            and len(share.gpu_ids) == count
            and share.share_milli == WHOLE_GPU_MILLI
            and not share.mig_starts
            for share in running.attempt.held
        )

    def _affected(self) -> set[str]:
        """The nodes with GPUs that are held."""
        unwritten = {name for name, _gpu_id in self._unwritten}
        return unwritten | {name for name, node in self._nodes().items() if _is_noted(node)}

    def _is_affected(self, name: str) -> bool:
        """Has this node GPUs that are held?"""
        node = self._nodes().get(name)
        if node is not None and _is_noted(node):
            return True
        return any(name == of for of, _gpu_id in self._unwritten)

    def _held_on(self, name: str) -> dict[str, HeldGpu]:
        node = self._nodes().get(name)
        noted = {} if node is None else held_on(node)
        return noted | {gpu.gpu_id: gpu for (of, _), gpu in self._unwritten.items() if of == name}

    def _judge(self) -> None:
        nodes = self._nodes()
        self._unwritten = {key: gpu for key, gpu in self._unwritten.items() if key[0] in nodes}
        for key, finding in self._health.findings.items():
            name, gpu_id = key
            node = nodes.get(name)
            if node is None:
                continue
            if finding.verdict.is_usable:
                self._say(key, finding)
            elif gpu_id in held_on(node):
                self._unwritten.pop(key, None)
                self._written.add(key)
            elif key in self._written:
                self._free(key)
            elif key not in self._unwritten:
                self._hold(key, finding)

    def _hold(self, key: _Key, finding: HealthFinding) -> None:
        name, gpu_id = key
        self._unwritten[key] = HeldGpu(
            gpu_id=gpu_id,
            verdict=finding.verdict,
            reason=f"{finding.reason} (node {name})",
            remedy=finding.remedy,
            found_at=finding.found_at,
        )
        _log.error(
            "%s on node %s is held (%s): %s",
            *(gpu_id, name, finding.verdict),
            sentences(finding.reason, f"{finding.remedy}, then free it with {free_command(name)}"),
        )
        self._wake()

    def _free(self, key: _Key) -> None:
        """A person has taken the annotation away, or the node has passed its test."""
        self._written.discard(key)
        self._health = self._health.without(key[1])
        _log.warning("%s on node %s is available again", key[1], key[0])
        self._wake()

    def _say(self, key: _Key, finding: HealthFinding) -> None:
        if self._said.get(key) == finding:
            return
        self._said[key] = finding
        _log.warning(
            "%s on node %s is degraded: %s",
            key[1],
            key[0],
            sentences(finding.reason, finding.remedy),
        )

    async def _write(self) -> None:
        """Note what is held on its node; what the worker may not note it remembers itself."""
        if not self._may_act():
            return
        for name in {name for name, _gpu_id in self._unwritten}:
            node = self._nodes().get(name)
            if node is None:
                continue
            held = self._held_on(name).values()
            if any(gpu.found_at is None for gpu in held):
                continue  # what cannot be understood is not overwritten, and holds the node
            text = held_annotation(node, held, RULES_VERSION)
            body = {"metadata": {"annotations": {HELD_ANNOTATION: text}}}
            try:
                await self._api.patch(f"/api/v1/nodes/{name}", body)
            except KubernetesError as error:
                self._rights.note(error, _FORGOTTEN)
                why = sentences(str(error), "the worker retries after the next GPU check")
                _log.debug("Failed to record held GPUs on node %s: %s", name, why)

    def _note_failure(self, failure: str) -> None:
        if self._failure is None:
            _log.warning("GPU health metrics are unavailable: %s", failure)
        self._failure = failure
