"""Attempts as Jobs of a cluster."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from anyio.abc import TaskGroup
from prefect.client.orchestration import PrefectClient
from prefect.workers.base import BaseJobConfiguration

from gpu_core.adapters.files.progress_report import ProgressReport
from gpu_core.adapters.files.run_files import Notice, notice_text
from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError
from gpu_core.decisions.checkpoints.progress_labels import stacks_in
from gpu_core.decisions.kubernetes.manifests.names import NOTICE_ANNOTATION, label_value
from gpu_core.decisions.kubernetes.variables.prefect_fields import PREFECT_FIELDS
from gpu_core.decisions.kubernetes.variables.variables import PodRequest
from gpu_core.decisions.model.attempt_exit import Exit
from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.model.cluster import Allocation, Node
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.model.measurements import Measurements
from gpu_core.decisions.model.pydantic_errors import known_names
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy, SecretReference
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.policy.telemetry import TelemetryPolicy
from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.decisions.telemetry.history import GpuWindow
from gpu_core.decisions.telemetry.metrics import WorkerFacts
from gpu_core.worker.attempts.run_log import run_fields
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import (
    Binding,
    NotStarted,
    ObservedUse,
    Started,
    TerminationRequest,
)
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache, has_pod_ended
from gpu_core.worker.kubernetes.cluster.event_recorder import EventRecorder
from gpu_core.worker.kubernetes.cluster.events import PodEvents
from gpu_core.worker.kubernetes.cluster.fence import SilentNodes, fenced_nodes
from gpu_core.worker.kubernetes.cluster.gpu_health import GpuHealthWatch
from gpu_core.worker.kubernetes.cluster.node_age import up_since
from gpu_core.worker.kubernetes.cluster.node_inventory import NodeInventory
from gpu_core.worker.kubernetes.cluster.node_pools import NodePools
from gpu_core.worker.kubernetes.cluster.node_preparation import NodePreparation
from gpu_core.worker.kubernetes.cluster.own_account import read_workers_own
from gpu_core.worker.kubernetes.cluster.priority_classes import PriorityClasses
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights
from gpu_core.worker.kubernetes.cluster.server_version import ServerVersion
from gpu_core.worker.kubernetes.jobs.attempt_killer import AttemptKiller
from gpu_core.worker.kubernetes.jobs.attempt_objects import AttemptObjects, path_in
from gpu_core.worker.kubernetes.jobs.attempt_request import is_container_job, is_gang_of_flow
from gpu_core.worker.kubernetes.jobs.attempt_starter import AttemptStarter, started_as
from gpu_core.worker.kubernetes.jobs.bindings import Bindings
from gpu_core.worker.kubernetes.jobs.checkpoint_reports import CheckpointReports, reported_progress
from gpu_core.worker.kubernetes.jobs.creations import Creations, may_be_partial
from gpu_core.worker.kubernetes.jobs.end_causes import EndCauses
from gpu_core.worker.kubernetes.jobs.gang_start import GangStart
from gpu_core.worker.kubernetes.jobs.job_status import has_run_a_pod, is_losing_pods
from gpu_core.worker.kubernetes.jobs.observed_exit import (
    has_never_worked,
    is_incomplete,
    observed_exit,
)
from gpu_core.worker.kubernetes.jobs.observed_life import is_observed_alive, nodes_by_rank
from gpu_core.worker.kubernetes.jobs.observed_trouble import observed_trouble
from gpu_core.worker.kubernetes.jobs.operator_jobs import is_run_by_operator
from gpu_core.worker.kubernetes.jobs.orphan_cleanup import OrphanCleanup
from gpu_core.worker.kubernetes.jobs.pod_sizes import PodSizes
from gpu_core.worker.kubernetes.jobs.pod_telemetry import PodTelemetry
from gpu_core.worker.kubernetes.jobs.pod_use import PodUse
from gpu_core.worker.kubernetes.jobs.run_references import RunReferences
from gpu_core.worker.kubernetes.jobs.tombstones import Tombstones
from gpu_core.worker.kubernetes.jobs.ttl_cleanup import TtlCleanup
from gpu_core.worker.kubernetes.logs.attempt_output import AttemptOutput
from gpu_core.worker.kubernetes.logs.container_runs import ContainerRuns, begun_pods
from gpu_core.worker.kubernetes.logs.final_logs import FinalLogs
from gpu_core.worker.kubernetes.logs.output import OutputFollower
from gpu_core.worker.prefect.starts_first import StartsFirst

_log = logging.getLogger("prefect.gpu.kubernetes")


class KubernetesInfrastructure:
    """The Jobs of one pool in a cluster.

    Args:
        api: The cluster.
        output_api: The same cluster, over connections for the output of containers alone.
        pool: The pool's name.
        namespace: The namespace of Jobs whose template names none.
        client: Prefect's, for what pods cannot report themselves.
        wake: Called when something changed that the next cycle should see.
        may_act: Asked before everything that changes the cluster.
        starts: Which starts are under way.
        prefect_secrets: Where flows get Prefect's keys from, by variable; none: in plain text.
        template: The pool's base job template, as it is now.
        hidden: A text without the secrets that the worker knows.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        output_api: KubernetesApi,
        pool: str,
        namespace: str,
        client: PrefectClient,
        wake: Callable[[], None],
        may_act: Callable[[], bool],
        starts: StartsFirst,
        prefect_secrets: Mapping[str, SecretReference],
        template: Callable[[], Mapping[str, Any]] = dict,
        hidden: Callable[[str], str] = str,
    ) -> None:
        self._api = api
        self._output_api = output_api
        self._pool = pool
        self._template = template
        self._hidden = hidden
        self._client = client
        self._starts = starts
        self._view = ClusterCache(api, wake)
        self._objects = AttemptObjects(api, self._view, namespace, may_act)
        self._policy = KubernetesPolicy()
        self._telemetry = TelemetryPolicy()
        self._pod_telemetry = PodTelemetry()
        self._version = ServerVersion(api)
        self._offers = NodeInventory(self._view, pool, template)
        self._pod_use = PodUse(
            self._view.pods_of, self._offers.gpu_counts, lambda: self._view.namespaces
        )
        self._bindings = Bindings(self._view, self._offers)
        self._node_pools = NodePools(api)
        self._rights = MissingRights()
        self._gpu_health = GpuHealthWatch(
            api, lambda: self._view.nodes, self._offers.gpu_counts, may_act, self._rights, wake
        )
        self._priority_classes = PriorityClasses(api, self._rights)
        self._references = RunReferences(client, template, namespace)
        self._sizes = PodSizes(self._references, self._view.custom_jobs, self._offers, template)
        self._events = PodEvents(api, self._view, self._rights)
        self._recorder = EventRecorder(api, self._view, self._rights)
        self._causes = EndCauses(self._view)
        self._output = AttemptOutput(self._view, self._causes, FinalLogs(api, self._rights))
        self._creations = Creations()
        self._starter = AttemptStarter(
            pool=pool,
            objects=self._objects,
            creations=self._creations,
            references=self._references,
            sizes=self._sizes,
            offers=self._offers,
            priority_classes=self._priority_classes,
            version=self._version,
            output=self._output,
            recorder=self._recorder,
            prefect_secrets=prefect_secrets,
        )
        tombstones = Tombstones(api, pool, self._references.namespace_of, may_act)
        self._killer = AttemptKiller(
            self._view, self._objects, self._causes, self._output, self._creations, tombstones
        )
        self._ttl_cleanup = TtlCleanup(api, self._view.custom_jobs, pool, may_act, self._rights)
        self._orphan_cleanup = OrphanCleanup(self._view, self._objects, client, pool, may_act)
        self._gang_start = GangStart(api, self._view, may_act)
        self._node_preparation = NodePreparation(
            api, lambda: self._view.nodes, pool, namespace, may_act
        )
        self._fenced: frozenset[str] = frozenset()
        self._silent_nodes = SilentNodes(self._view)
        self._failure: str | None = None
        self._reports = CheckpointReports(client)
        self._host = ""

    async def start_watching(self, tasks: TaskGroup, policy: Policy) -> None:
        """Learn which cluster it is, and what is there."""
        self._policy, self._telemetry = policy.kubernetes, policy.telemetry
        await self._version.read(policy.kubernetes)
        self._host = await self._cluster_name()
        self._references.workers_own = await read_workers_own(self._api, self._rights)
        output = OutputFollower(self._output_api, self._rights)
        self._output.containers = ContainerRuns(
            self._client, output, tasks, self._output.is_over, self._starts, self._hidden
        )
        tasks.start_soon(self._recorder.run)
        self._pod_use.set_policy(policy)
        tasks.start_soon(self._pod_use.run)
        self._gpu_health.set_policy(policy.telemetry)
        tasks.start_soon(self._gpu_health.run)
        await self._view.start(tasks)

    @property
    def host(self) -> str:
        """The cluster's name in the ledger: the same for each of its workers."""
        return self._host

    @property
    def disk(self) -> None:
        """None: pods write on their nodes."""

    @property
    def is_fixed(self) -> bool:
        """Nodes come and go: a run that fits on none waits, with the reason."""
        return False

    @property
    def is_environment_private(self) -> bool:
        """Each reader of Jobs or pods sees it: what is secret comes from Secrets."""
        return False

    def is_placed_as_planned(self, policy: Policy) -> bool:
        """Pods are pinned to the nodes of the plan, except in Kueue's queue."""
        return policy.kubernetes.kueue_queue is None

    @property
    def variable_names(self) -> frozenset[str]:
        """Those that shape pods, also where the pool's template is older than one of them."""
        return frozenset({*known_names(PodRequest), *(field.name for field in PREFECT_FIELDS)})

    @property
    def fitted_by(self) -> object:
        """The parts of GPUs on the nodes, the operators, and what is the worker's own."""
        return self._sizes.fitted_by

    def fitted(
        self,
        workload: Workload,
        variables: Mapping[str, object],
        policy: Policy,
        flow_name: str,
        *,
        has_deployment: bool,
    ) -> Workload:
        """With the part of a GPU, the CPU and the memory that each of its pods takes of a node."""
        return self._sizes.fitted(
            workload, variables, policy, flow_name, has_deployment=has_deployment
        )

    def keep_fitted(self, flow_run_ids: Collection[str]) -> None:
        """Forget the pod requests of all other runs."""
        self._sizes.keep(flow_run_ids)

    async def observe(self, policy: Policy, allocations: Sequence[Allocation]) -> tuple[Node, ...]:
        """The nodes with GPUs, without what the pods of others use."""
        self._log_failure()
        self._policy, self._telemetry = policy.kubernetes, policy.telemetry
        self._pod_use.set_policy(policy)
        self._gpu_health.set_policy(policy.telemetry)
        if not self._view.is_behind_on_nodes:  # they may have spoken since
            self._fenced = fenced_nodes(self._view, policy.kubernetes, datetime.now(UTC))
        await self._priority_classes.refresh(policy)
        node_pools = await self._node_pools.refresh(policy.kubernetes)
        offered = self._offers.nodes(policy, allocations, node_pools)
        busy = frozenset(
            share.node for allocation in allocations for share in allocation.placement.shares
        )
        real = [node for node in offered if not node.is_planned]
        await self._node_preparation.reconcile(real, busy, policy.kubernetes)
        tested = self._node_preparation.without_untested(
            offered, policy.kubernetes, datetime.now(UTC)
        )
        return self._gpu_health.without_held(tested, policy)

    def binding(
        self, running: AttemptState, unsettled: Sequence[AttemptState], policy: Policy
    ) -> Binding | None:
        """Which GPUs of the nodes that its pods are bound to does it hold?"""
        return self._bindings.current(running, unsettled)

    def final_binding(
        self, running: AttemptState, unsettled: Sequence[AttemptState], policy: Policy
    ) -> Binding | None:
        """Which GPUs did it hold, by its pods as they were seen last?"""
        return self._bindings.final(running, unsettled)

    def allocations(
        self, attempts: Sequence[AttemptState], policy: Policy
    ) -> tuple[Allocation, ...]:
        """What do they hold? One that others place, no GPU that a bound attempt holds."""
        return self._bindings.allocations(attempts, policy)

    async def context(self, running: AttemptState, context: RunContext) -> RunContext:
        """Folder and devices are the pod's; checkpoints have to be reported through Prefect.

        Of nodes that another scheduler will choose it is unknown what they are.
        """
        context = replace(context, reports_to_prefect=not is_container_job(running))
        if running.is_to_be_placed:
            types = running.workload.shape.gpu_types
            gpu_type = types[0] if len(types) == 1 else None
            return replace(context, gpu_type=gpu_type, capacity_life=None)
        return replace(context, capacity_since=up_since(running.attempt.held, self._view.nodes))

    async def start(
        self,
        running: AttemptState,
        configuration: BaseJobConfiguration,
        context: RunContext,
        environment: Mapping[str, str],
        policy: Policy,
    ) -> Started:
        """Create the attempt's object: a Job, or what its framework's operator runs."""
        return await self._starter.start(running, configuration, context, environment, policy)

    async def find(self, attempts: Sequence[Attempt]) -> Mapping[str, Started]:
        """The objects of these attempts that are there."""
        found = {}
        for attempt in attempts:
            custom_job = self._view.custom_jobs.of(attempt.attempt_id)
            if custom_job is None and may_be_partial(attempt):
                continue
            jobs = [custom_job] if custom_job else self._view.jobs_of(attempt.attempt_id)
            if jobs:
                found[attempt.attempt_id] = started_as(
                    min(jobs, key=lambda job: job["metadata"]["name"])
                )
        return found

    def watch(self, running: AttemptState) -> None:
        """Nothing: all of the pool is watched."""

    def lives(self, running: AttemptState) -> bool:
        """Is there an object of it, or pods, that have not come to their end?"""
        return is_observed_alive(running, self._view, self._creations, self._fenced)

    def trouble(
        self, running: AttemptState, policy: Policy, now: datetime
    ) -> TerminationRequest | None:
        """Does a pod of it wait for what will not come, or is its node about to go?"""
        return observed_trouble(running, self._view, self._events, self._gpu_health, policy, now)

    async def reconcile(self, attempts: Sequence[AttemptState], policy: Policy) -> None:
        """Events of pods that do not run yet; states and output of containers without Prefect;
        objects of operators that ended long ago go, and what no open attempt answers for.

        An attempt whose pod is deleted from outside loses its Job, which would make another pod.
        """
        self._view.keep({running.attempt.attempt_id for running in attempts})
        await self._view.custom_jobs.refresh()
        open_attempts = {label_value(running.attempt.attempt_id) for running in attempts}
        await self._ttl_cleanup.clear(open_attempts, policy.kubernetes, datetime.now(UTC))
        await self._orphan_cleanup.end(open_attempts, self._fenced)
        self._silent_nodes.log(attempts, self._fenced, policy.kubernetes, datetime.now(UTC))
        for running in attempts:
            await self._keep_from_replacing(running)
        await self._gang_start.reconcile([r for r in attempts if is_gang_of_flow(r)])
        await self._events.refresh([each for each in attempts if each.phase.holds_gpus])
        for running in attempts:
            # The settlement of an end reports first that it ran.
            if not running.phase.has_ended:
                self._output.reconcile(running)

    async def _keep_from_replacing(self, running: AttemptState) -> None:
        attempt_id = running.attempt.attempt_id
        if is_run_by_operator(running, self._view.custom_jobs):
            return  # its operator may make another pod, and says itself when it gives up
        if not is_losing_pods(self._view.jobs_of(attempt_id), self._view.pods_of(attempt_id)):
            return
        try:
            await self._objects.delete(attempt_id, self._fenced, grace_s=None)
        except (KubernetesError, NotStarted) as error:
            # The worker that acts now does it.
            name, fields = running.record.name, run_fields(running)
            _log.warning("Failed to delete job for flow run %r: %s", name, error, extra=fields)

    async def refresh(self, attempts: Sequence[AttemptState]) -> None:
        """Read progress from the labels of flow runs. Containers without Prefect set none."""
        await self._reports.refresh([each for each in attempts if not is_container_job(each)])

    async def notify(self, running: AttemptState, notice: Notice) -> None:
        """Annotate the pods; the kubelet writes the annotation into the file that the run reads."""
        body = {"metadata": {"annotations": {NOTICE_ANNOTATION: notice_text(notice)}}}
        for pod in self._view.pods_of(running.attempt.attempt_id):
            if not has_pod_ended(pod):
                await self._api.patch(path_in(pod), body)

    def sees_its_cancellation(self, running: AttemptState) -> bool:
        """A flow does once it has started; a container job has no Prefect inside."""
        if is_container_job(running) or is_incomplete(running, self._view):
            return False
        return bool(begun_pods(self._view.pods_of(running.attempt.attempt_id)))

    async def terminate(self, running: AttemptState) -> None:
        """Delete its object: its pods get SIGTERM, and no others can take their place."""
        attempt_id = running.attempt.attempt_id
        self._output.follow(running)  # with the pod its output goes
        await self._objects.delete(attempt_id, self._fenced, grace_s=None)

    async def kill(self, running: AttemptState) -> bool:
        """Delete what still runs of the attempt, and wait until the nodes report its end."""
        return await self._killer.kill(running, self._fenced, self._policy)

    def with_devices(self, facts: WorkerFacts) -> WorkerFacts:
        """With the verdicts on the GPUs that are not well; samples are the node exporter's."""
        return replace(facts, verdicts=self._gpu_health.verdicts)

    def take_gpu_windows(self) -> tuple[GpuWindow, ...]:
        """None: a Prometheus has the history of GPUs in other machines."""
        return ()

    async def gpu_summaries(self, running: AttemptState) -> tuple[GpuSummary, ...]:
        """The activity of its pods' GPUs, from the policy's Prometheus."""
        pods = self._view.last_pods_of(running.attempt.attempt_id)
        attempt, now = running.attempt, datetime.now(UTC)
        begun = attempt.started_at or attempt.admitted_at
        return await self._pod_telemetry.summaries(
            self._telemetry, pods, begun, attempt.released_at or now
        )

    async def observed_use(self, running: AttemptState) -> ObservedUse:
        """The metrics of its pods, from the policy's Prometheus, and the reports of its run."""
        return ObservedUse(
            activity=self._pod_use.activity(running),
            progress=reported_progress(running, datetime.now(UTC)),
            has_rank_order=False,
            nodes=nodes_by_rank(self._view.pods_of(running.attempt.attempt_id)),
        )

    def measurements(
        self,
        attempts: Sequence[AttemptState],
        nodes: Sequence[Node],
        allocations: Sequence[Allocation],
        policy: Policy,
        now: datetime,
    ) -> Measurements:
        """The metrics of nodes and runs, from the policy's Prometheus."""
        return self._pod_use.measurements(attempts, nodes, allocations, now)

    async def stacks(
        self, running: AttemptState, progress: Sequence[ProgressReport]
    ) -> Mapping[int, str]:
        """Those that its ranks have taken and sent: no signal reaches a pod's processes."""
        return stacks_in(running.labels, running.attempt.attempt_id, datetime.now(UTC))

    async def host_summary(self, running: AttemptState) -> None:
        """None: its pods are in other machines."""

    async def last_lines(self, running: AttemptState) -> tuple[str, ...]:
        """From the log of the pod that says why it ended; none where the run's log has them."""
        return await self._output.last_lines(running)

    async def report_start(self, running: AttemptState) -> None:
        """Report that a container has run, in which no flow reports that."""
        if not has_never_worked(running, self._view):
            await self._output.report_start(running)

    async def exit(self, running: AttemptState) -> Exit | None:
        """The end of the attempt, from the last known statuses of its pods."""
        lines = self._output.followed_lines(running.attempt.attempt_id)
        return observed_exit(running, self._view, self._causes, lines)

    def held_gpus(self, running: AttemptState) -> bool:
        """True once a pod of it was seen on a node; until then its nodes are planned."""
        attempt_id = running.attempt.attempt_id
        if running.attempt.bound_at is not None or self._bindings.was_on_a_node(attempt_id):
            return True
        return any(has_run_a_pod(job) for job in self._view.jobs_of(attempt_id))

    def record_event(self, running: AttemptState, reason: Reason | EndReason, note: str) -> None:
        """As a Kubernetes Event on its Job, or on what its operator runs."""
        self._recorder.record(running.attempt.attempt_id, reason, note)

    def settled(self, running: AttemptState) -> None:
        """Forget how its pods ended."""
        attempt_id = running.attempt.attempt_id
        self._pod_use.forget(attempt_id)
        self._recorder.forget(attempt_id)
        self._view.custom_jobs.forget(attempt_id)
        self._causes.forget(attempt_id)
        self._creations.forget(attempt_id)
        self._output.forget(attempt_id)

    async def close(self) -> None:
        """Nothing of its own: the watches end with the group of tasks that they run in."""

    def _log_failure(self) -> None:
        """Let the log say when what is planned with may be old, and when it is not any more."""
        failure = self._view.failure
        if (failure is None) != (self._failure is None):
            _log.warning(
                "The cluster is %s",
                "observed again" if failure is None else f"not observed at the moment: {failure}",
            )
        self._failure = failure

    async def _cluster_name(self) -> str:
        """The uid of the namespace that every cluster has and that cannot be created anew."""
        system = await self._api.get("/api/v1/namespaces/kube-system")
        return f"cluster-{system['metadata']['uid']}"
