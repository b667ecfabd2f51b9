"""Attempts as Jobs of a cluster."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import anyio
from anyio.abc import TaskGroup
from prefect.client.orchestration import PrefectClient
from prefect.workers.base import BaseJobConfiguration

from gpu_core.adapters.files.progress_report import ProgressReport
from gpu_core.adapters.files.run_files import Notice, notice_text
from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError
from gpu_core.adapters.kubernetes.api import Json
from gpu_core.adapters.kubernetes.reflector import SILENCE_S
from gpu_core.decisions.checkpoints.progress_labels import stacks_in
from gpu_core.decisions.checkpoints.trust import SIGNING_KEY_HELP, SIGNING_KEY_VARIABLE
from gpu_core.decisions.kubernetes.manifests import commands
from gpu_core.decisions.kubernetes.manifests.container import main_container
from gpu_core.decisions.kubernetes.manifests.gang import is_first, node_rank
from gpu_core.decisions.kubernetes.manifests.launch import Launch
from gpu_core.decisions.kubernetes.manifests.names import NOTICE_ANNOTATION, label_value
from gpu_core.decisions.kubernetes.nodes.virtual_nodes import wanted_for
from gpu_core.decisions.kubernetes.status.api_errors import why_refused
from gpu_core.decisions.kubernetes.status.attempt_status import decisive_pod
from gpu_core.decisions.kubernetes.status.outcome import Cause
from gpu_core.decisions.kubernetes.status.pod_pending import refused
from gpu_core.decisions.kubernetes.status.pod_termination import (
    first_start_at,
    last_end_at,
)
from gpu_core.decisions.kubernetes.variables.prefect_fields import PREFECT_FIELDS
from gpu_core.decisions.kubernetes.variables.variables import (
    PodRequest,
)
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
from gpu_core.worker.attempts.state import AttemptState, StartFailureKind
from gpu_core.worker.infrastructure import (
    Binding,
    NotStarted,
    ObservedUse,
    Postponed,
    Refused,
    Started,
    TerminationRequest,
    Unavailable,
)
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache, has_ended
from gpu_core.worker.kubernetes.cluster.event_recorder import EventRecorder
from gpu_core.worker.kubernetes.cluster.events import PodEvents
from gpu_core.worker.kubernetes.cluster.fence import SilentNodes, fenced_nodes
from gpu_core.worker.kubernetes.cluster.gpu_health import GpuHealthWatch
from gpu_core.worker.kubernetes.cluster.node_inventory import NodeInventory
from gpu_core.worker.kubernetes.cluster.node_pools import NodePools
from gpu_core.worker.kubernetes.cluster.node_preparation import NodePreparation
from gpu_core.worker.kubernetes.cluster.own_account import read_workers_own
from gpu_core.worker.kubernetes.cluster.priority_classes import PriorityClasses
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights
from gpu_core.worker.kubernetes.cluster.server_version import ServerVersion
from gpu_core.worker.kubernetes.jobs.attempt_objects import KILL_GRACE_S, AttemptObjects, path_in
from gpu_core.worker.kubernetes.jobs.attempt_request import (
    has_head,
    is_container_job,
    is_gang_of_flow,
    request_at_start,
    request_of,
)
from gpu_core.worker.kubernetes.jobs.bindings import Bindings
from gpu_core.worker.kubernetes.jobs.checkpoint_reports import CheckpointReports, reported_progress
from gpu_core.worker.kubernetes.jobs.end_causes import EndCauses
from gpu_core.worker.kubernetes.jobs.gang_start import GangStart
from gpu_core.worker.kubernetes.jobs.job_status import (
    exit_of,
    has_run_a_pod,
    is_alive,
    is_done,
    is_losing_pods,
    moment,
    silent_partner_of,
    trouble_of,
    wants_pods,
)
from gpu_core.worker.kubernetes.jobs.operator_job_status import (
    custom_exit_of,
    custom_trouble_of,
    is_custom_alive,
    is_custom_pending,
    is_custom_running,
)
from gpu_core.worker.kubernetes.jobs.orphan_cleanup import OrphanCleanup
from gpu_core.worker.kubernetes.jobs.pod_sizes import PodSizes
from gpu_core.worker.kubernetes.jobs.pod_telemetry import PodTelemetry
from gpu_core.worker.kubernetes.jobs.pod_use import PodUse
from gpu_core.worker.kubernetes.jobs.run_references import RunReferences
from gpu_core.worker.kubernetes.jobs.tombstones import Tombstones
from gpu_core.worker.kubernetes.jobs.ttl_cleanup import TtlCleanup
from gpu_core.worker.kubernetes.logs.container_runs import ContainerRuns, begun_pods
from gpu_core.worker.kubernetes.logs.final_logs import FinalLogs
from gpu_core.worker.kubernetes.logs.output import OutputFollower
from gpu_core.worker.kubernetes.variables import GpuKubernetesJobConfiguration
from gpu_core.worker.prefect.starts_first import StartsFirst

_log = logging.getLogger("prefect.gpu.kubernetes")

# The watch sees a new Job within milliseconds; until then nothing proves that it is alive. A watch
# whose connection is cut silently sees it later: no Job is ended for that.
_UNSEEN_S = SILENCE_S + 5.0

_KILL_WAIT_S = 10.0

_UNCONFIRMED = (
    "The worker or the API server stopped while the pods of its gang were created, so those that "
    "existed were deleted"
)


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
        self._prefect_secrets = prefect_secrets
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
        self._tombstones = Tombstones(api, pool, self._references.namespace_of, may_act)
        self._events = PodEvents(api, self._view, self._rights)
        self._recorder = EventRecorder(api, self._view, self._rights)
        self._final_logs = FinalLogs(api, self._rights)
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
        self._containers: ContainerRuns | None = None
        self._created_at_s: dict[str, float] = {}
        self._answered: set[str] = set()
        self._causes = EndCauses(self._view)
        self._host = ""

    async def start_watching(self, tasks: TaskGroup, policy: Policy) -> None:
        """Learn which cluster it is, and what is there."""
        self._policy, self._telemetry = policy.kubernetes, policy.telemetry
        await self._version.read(policy.kubernetes)
        self._host = await self._cluster_name()
        self._references.workers_own = await read_workers_own(self._api, self._rights)
        output = OutputFollower(self._output_api, self._rights)
        self._containers = ContainerRuns(
            self._client, output, tasks, self._is_over, self._starts, self._hidden
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
        self, running: AttemptState, others: Sequence[AttemptState], policy: Policy
    ) -> Binding | None:
        """Which GPUs of the nodes that its pods are bound to does it hold?"""
        return self._bindings.current(running, others)

    def final_binding(
        self, running: AttemptState, others: Sequence[AttemptState], policy: Policy
    ) -> Binding | None:
        """Which GPUs did it hold, by its pods as they were seen last?"""
        return self._bindings.final(running, others)

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
        return replace(context, capacity_since=self._up_since(running))

    async def start(
        self,
        running: AttemptState,
        configuration: BaseJobConfiguration,
        context: RunContext,
        environment: Mapping[str, str],
        policy: Policy,
    ) -> Started:
        """Create the attempt's object: a Job, or what its framework's operator runs.

        Raises:
            Unavailable: Its checkpoints have to be signed, and the policy names no Secret for that.
            Refused: It refers to what its team is not permitted.
        """
        if not isinstance(configuration, GpuKubernetesJobConfiguration):
            raise TypeError(f"{type(configuration).__name__} is not of a gpu-kubernetes pool")
        request = request_at_start(running)
        await self._references.require_permitted(
            running, configuration.job_manifest, request, policy
        )
        launch = self._launch(running, context, environment, policy)
        if launch.is_flow and context.requires_signatures:
            _require_signing_key(policy)
        self._created_at_s[running.attempt.attempt_id] = anyio.current_time()
        if self._containers is not None:
            self._containers.begin(running.attempt.attempt_id)
        try:
            created = await self._objects.create(
                configuration.job_manifest, launch, self._version.applied_to(policy.kubernetes)
            )
        except KubernetesError as error:
            # 401: it is the worker that is not known, for as long as its credentials are old.
            if error.is_retryable or error.status == 401:
                # No answer is no refusal: it may be there all the same, and is given time to show.
                self._created_at_s[running.attempt.attempt_id] = anyio.current_time()
                raise NotStarted(str(error)) from error
            self._created_at_s.pop(running.attempt.attempt_id, None)
            self._answered.add(running.attempt.attempt_id)
            found = refused(error.message)
            if found.cause is Cause.QUOTA_REFUSED:
                raise Postponed(found.message) from error
            raise Refused(why_refused(error.message)) from error
        self._recorder.created(running.attempt.attempt_id, created)
        return replace(_started(created), started_at=datetime.now(UTC))

    async def find(self, attempts: Sequence[Attempt]) -> Mapping[str, Started]:
        """The objects of these attempts that are there."""
        found = {}
        for attempt in attempts:
            if _may_be_partial(attempt):
                continue
            custom_job = self._view.custom_jobs.of(attempt.attempt_id)
            jobs = [custom_job] if custom_job else self._view.jobs_of(attempt.attempt_id)
            if jobs:
                found[attempt.attempt_id] = _started(
                    min(jobs, key=lambda job: job["metadata"]["name"])
                )
        return found

    def watch(self, running: AttemptState) -> None:
        """Nothing: all of the pool is watched."""

    def lives(self, running: AttemptState) -> bool:
        """Is there an object of it, or pods, that have not come to their end?"""
        attempt_id = running.attempt.attempt_id
        if _may_be_partial(running.attempt):
            return self._is_just_created(attempt_id)
        jobs, pods = self._view.jobs_of(attempt_id), self._view.pods_of(attempt_id)
        custom_job = self._view.custom_jobs.of(attempt_id)
        if self._is_operated(running) and (custom_job or pods):
            self._created_at_s.pop(attempt_id, None)
            return is_custom_alive(custom_job, pods, self._fenced)
        if jobs or pods:
            self._created_at_s.pop(attempt_id, None)
            return is_alive(jobs, pods, self._fenced, is_flow=not is_container_job(running))
        return self._is_just_created(attempt_id)

    def _is_just_created(self, attempt_id: str) -> bool:
        """Would what was created for it perhaps not be seen yet?"""
        created_at_s = self._created_at_s.get(attempt_id)
        return created_at_s is not None and anyio.current_time() - created_at_s < _UNSEEN_S

    def trouble(
        self, running: AttemptState, policy: Policy, now: datetime
    ) -> TerminationRequest | None:
        """Does a pod of it wait for what will not come, or is its node about to go?"""
        attempt_id = running.attempt.attempt_id
        if lost := self._lost_before_it_was_bound(running):
            why = f"Node {lost} is gone, and its pod had not been bound."
            return TerminationRequest(reason=EndReason.INTERRUPTED, message=why)
        if ill := self._gpu_health.trouble(running, self._view.pods_of(attempt_id), now):
            return ill
        if self._is_operated(running):
            return custom_trouble_of(
                self._view.custom_jobs.of(attempt_id),
                self._view.pods_of(attempt_id),
                self._view.nodes,
                policy.kubernetes,
                now,
                self._view.gone_nodes,
                events=self._events.of(attempt_id),
                is_first=running.attempt.number == 1,
            )
        return trouble_of(
            self._view.jobs_of(attempt_id),
            self._view.pods_of(attempt_id),
            self._events.of(attempt_id),
            self._view.nodes,
            policy.kubernetes,
            now,
            gone_nodes=self._view.gone_nodes,
            is_for_new_node=bool(running.awaited_kinds),
            is_first=running.attempt.number == 1,
            is_starting=running.began_at is None,
        )

    def _lost_before_it_was_bound(self, running: AttemptState) -> str | None:
        """Which node is gone that a pinned pod of it waits for? None: none is."""
        if running.attempt.bound_at is None:
            return None
        pods = self._view.pods_of(running.attempt.attempt_id)
        if not any("nodeName" not in pod["spec"] for pod in pods):
            return None
        bound = {pod["spec"].get("nodeName") for pod in pods}
        gone = self._view.gone_nodes
        return next((s.node for s in running.attempt.held if s.node in gone.keys() - bound), None)

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
                self._tend_container(running)

    def _tend_container(self, running: AttemptState) -> None:
        self._follow_output(running)
        if self._containers is None or not is_container_job(running):
            return
        attempt_id = running.attempt.attempt_id
        custom_job = self._view.custom_jobs.of(attempt_id)
        jobs, pods = self._view.jobs_of(attempt_id), self._view.pods_of(attempt_id)
        # A gang of which a pod is missing waits for it.
        has_begun = bool(begun_pods(pods)) and not wants_pods(jobs, pods)
        if has_begun if custom_job is None else is_custom_running(custom_job):
            self._containers.begin_to_report_running(running)

    def _follow_output(self, running: AttemptState) -> None:
        """Let the run have the output of its containers without Prefect."""
        if self._containers is None or not request_of(running).stream_output:
            return
        is_gang = running.workload.shape.nodes > 1
        for pod in self._pods_to_follow(running):
            container = pod["spec"]["containers"][main_container(pod["spec"])]["name"]
            rank = node_rank(pod) if is_gang else None
            prefix = "" if rank is None else f"[node {rank}] "
            self._containers.follow(running, pod, container, prefix=prefix)

    def _pods_to_follow(self, running: AttemptState) -> list[Json]:
        """All nodes of a gang; of a flow those after the first, which logs through Prefect's API;
        of Ray and Spark the head pod, which prints what the others write."""
        attempt_id = running.attempt.attempt_id
        pods = begun_pods(self._view.pods_of(attempt_id))
        if not is_container_job(running):
            is_gang = running.workload.shape.nodes > 1
            return [pod for pod in pods if not is_first(pod)] if is_gang else []
        if not has_head(request_of(running)):
            return pods
        followed = [
            pod
            for pod in pods
            if self._containers and self._containers.follows(attempt_id, pod["metadata"]["uid"])
        ]
        is_another_followed = self._containers and self._containers.follows_any(attempt_id)
        return followed or ([] if is_another_followed else pods[:1])

    async def _keep_from_replacing(self, running: AttemptState) -> None:
        attempt_id = running.attempt.attempt_id
        if self._is_operated(running):
            return  # its operator may make another pod, and says itself when it gives up
        if not is_losing_pods(self._view.jobs_of(attempt_id), self._view.pods_of(attempt_id)):
            return
        try:
            await self._objects.delete(attempt_id, self._fenced, grace_s=None)
        except (KubernetesError, NotStarted) as error:
            # The worker that acts now does it.
            name, fields = running.record.name, run_fields(running)
            _log.warning("The Job of %r cannot be deleted: %s", name, error, extra=fields)

    async def refresh(self, attempts: Sequence[AttemptState]) -> None:
        """Read progress from the labels of flow runs. Containers without Prefect set none."""
        await self._reports.refresh([each for each in attempts if not is_container_job(each)])

    async def notify(self, running: AttemptState, notice: Notice) -> None:
        """Annotate the pods; the kubelet writes the annotation into the file that the run reads."""
        body = {"metadata": {"annotations": {NOTICE_ANNOTATION: notice_text(notice)}}}
        for pod in self._view.pods_of(running.attempt.attempt_id):
            if not has_ended(pod):
                await self._api.patch(path_in(pod), body)

    def sees_its_cancellation(self, running: AttemptState) -> bool:
        """A flow does once it has started; a container job has no Prefect inside."""
        if is_container_job(running) or self._is_incomplete(running):
            return False
        return bool(begun_pods(self._view.pods_of(running.attempt.attempt_id)))

    async def terminate(self, running: AttemptState) -> None:
        """Delete its object: its pods get SIGTERM, and no others can take their place."""
        attempt_id = running.attempt.attempt_id
        self._follow_output(running)  # with the pod its output goes
        await self._objects.delete(attempt_id, self._fenced, grace_s=None)

    async def kill(self, running: AttemptState) -> bool:
        """Delete what still runs of the attempt, and wait until the nodes report its end."""
        attempt_id = running.attempt.attempt_id
        deadline_s = anyio.current_time() + _KILL_WAIT_S
        self._follow_output(running)  # it may have ended before a cycle
        self._causes.note(attempt_id)
        if self._objects.live(attempt_id, self._fenced):
            await self._keep_final_logs(running)
            await self._objects.delete(attempt_id, self._fenced, grace_s=KILL_GRACE_S)
        while self._objects.live(attempt_id, self._fenced):
            if anyio.current_time() >= deadline_s:
                return False
            await self._view.next_change(1.0)
        await self._objects.clear(attempt_id, self._fenced)
        if await self._objects.end_unseen(attempt_id, self._fenced):
            return False
        return await self._cannot_be_created(running)

    async def _cannot_be_created(self, running: AttemptState) -> bool:
        """Can no request that is still on its way create this attempt? False: one just did.

        Its creation is over where it was answered, or where its object was seen. That of a worker
        which lost its lease, and one that got no answer, may still be heard.
        """
        attempt = running.attempt
        is_over = attempt.started_at is not None or attempt.attempt_id in self._answered
        if is_over or not running.is_claimed:
            return True
        framework = request_of(running).framework
        if not await self._tombstones.put(running, framework, self._policy):
            return False
        self._answered.add(attempt.attempt_id)
        return True

    async def _keep_final_logs(self, running: AttemptState) -> None:
        """Of the pod that ended first, unless its run has them: with its Job its output goes."""
        if running.is_stop_requested or self._is_operated(running):
            return
        attempt_id = running.attempt.attempt_id
        pod = decisive_pod([pod for pod in self._causes.pods_of(attempt_id) if is_done(pod)])
        if pod is None:
            return
        if self._containers and self._containers.follows(attempt_id, pod["metadata"]["uid"]):
            return
        await self._final_logs.keep(attempt_id, pod)

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
            nodes=self._nodes_of_gang(running),
        )

    def _nodes_of_gang(self, running: AttemptState) -> dict[int, str]:
        pods = self._view.pods_of(running.attempt.attempt_id)
        nodes = {node_rank(pod): pod["spec"].get("nodeName") for pod in pods}
        return {
            int(rank): node for rank, node in nodes.items() if node and rank and rank.isdecimal()
        }

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
        await self._keep_final_logs(running)
        return self._final_logs.of(running.attempt.attempt_id)

    async def report_start(self, running: AttemptState) -> None:
        """Report that a container has run, in which no flow reports that."""
        has_run = bool(begun_pods(self._view.last_pods_of(running.attempt.attempt_id)))
        if has_run and is_container_job(running) and self._containers is not None:
            await self._containers.report_running(running)

    async def exit(self, running: AttemptState) -> Exit | None:
        """The end of the attempt, from the last known statuses of its pods."""
        attempt_id = running.attempt.attempt_id
        is_postponed = running.failure(StartFailureKind.POSTPONED) is not None
        if is_postponed and self._is_incomplete(running):
            return None  # what its pods did was to wait for the others
        lines = self._last_lines_followed(attempt_id)
        pods = self._view.last_pods_of(attempt_id)
        if self._is_operated(running):
            found = custom_exit_of(self._view.custom_jobs.last_of(attempt_id), pods, lines)
            return found and replace(found, **_times(pods, running.attempt))
        ended = self._causes.pods_of(attempt_id)
        found = exit_of(
            self._view.jobs_of(attempt_id),
            ended,
            lines,
            is_flow=not is_container_job(running),
            nodes=running.workload.shape.nodes,
        )
        if found is None:
            return None
        found = replace(found, **_times(pods, running.attempt))
        if _may_be_partial(running.attempt) and found.exit_code is None:
            return replace(found, message=_UNCONFIRMED)
        node = silent_partner_of(ended, pods, self._view.nodes)
        if node is None:
            return found
        why = (f"node {node} was lost, and with it its gang.", found.message)
        return replace(found, is_gang_lost=True, message=" ".join(filter(None, why)))

    def held_gpus(self, running: AttemptState) -> bool:
        """True once a pod of it was seen on a node; until then its nodes are planned."""
        attempt_id = running.attempt.attempt_id
        if running.attempt.bound_at is not None or self._bindings.was_on_a_node(attempt_id):
            return True
        return any(has_run_a_pod(job) for job in self._view.jobs_of(attempt_id))

    def _is_incomplete(self, running: AttemptState) -> bool:
        """Was it never there as a whole, so that nothing of it can have worked?"""
        attempt_id = running.attempt.attempt_id
        if self._is_operated(running):
            item = self._view.custom_jobs.last_of(attempt_id)
            return item is None or is_custom_pending(item)
        return len(self._view.last_pods_of(attempt_id)) < running.workload.shape.nodes

    def _last_lines_followed(self, attempt_id: str) -> tuple[str, ...]:
        if self._containers is None:
            return ()
        pod = decisive_pod([pod for pod in self._causes.pods_of(attempt_id) if is_done(pod)])
        uid = None if pod is None else pod["metadata"]["uid"]
        return self._containers.last_lines(attempt_id, uid)

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
        self._created_at_s.pop(attempt_id, None)
        self._answered.discard(attempt_id)
        self._final_logs.forget(attempt_id)
        if self._containers is not None:
            self._containers.forget(attempt_id)

    async def close(self) -> None:
        """Nothing of its own: the watches end with the group of tasks that they run in."""

    def _up_since(self, running: AttemptState) -> datetime | None:
        """Since when have its nodes been there, the last one? None: one is still to come."""
        nodes = [self._view.nodes.get(share.node) for share in running.attempt.held]
        known = [
            moment(node["metadata"].get("creationTimestamp")) for node in nodes if node is not None
        ]
        moments = [since for since in known if since is not None]
        return max(moments) if moments and len(moments) == len(nodes) else None

    def _launch(
        self,
        running: AttemptState,
        context: RunContext,
        environment: Mapping[str, str],
        policy: Policy,
    ) -> Launch:
        queue = running.workload.queue
        points_of = running.request.gpu_priority or queue
        with_points = None if points_of is None else policy.queue_with_points(points_of)
        placement = running.allocation().placement
        request = request_at_start(running)
        return Launch(
            context=context,
            shape=self._sizes.container_shape(running, request, policy.kubernetes),
            place=wanted_for(placement, self._offers.kinds) or placement,
            pool=self._pool,
            gpu_resource=self._offers.gpu_resource(placement),
            # Prefect has rendered the image into the manifest, templates in it included.
            pod=request.model_copy(update={"image": None}),
            queue=queue,
            priority_queue=self._priority_classes.queue_for(with_points, policy),
            user=running.workload.user,
            max_duration_s=running.limits.max_duration_s,
            is_flow=not is_container_job(running),
            environment=environment,
            prefect_secrets=self._prefect_secrets,
        )

    def _is_operated(self, running: AttemptState) -> bool:
        """Is it, or was it, an operator's? Its variables may be unreadable by now."""
        if self._view.custom_jobs.last_of(running.attempt.attempt_id) is not None:
            return True
        return commands.is_operated(request_of(running))

    def _log_failure(self) -> None:
        """Let the log say when what is planned with may be old, and when it is not any more."""
        failure = self._view.failure
        if (failure is None) != (self._failure is None):
            _log.warning(
                "The cluster is %s",
                "observed again" if failure is None else f"not observed at the moment: {failure}",
            )
        self._failure = failure

    def _is_over(self, running: AttemptState, uid: str) -> bool:
        pods = self._view.pods_of(running.attempt.attempt_id)
        return all(is_done(pod) for pod in pods if pod["metadata"]["uid"] == uid)

    async def _cluster_name(self) -> str:
        """The uid of the namespace that every cluster has and that cannot be created anew."""
        system = await self._api.get("/api/v1/namespaces/kube-system")
        return f"cluster-{system['metadata']['uid']}"


def _require_signing_key(policy: Policy) -> None:
    if SIGNING_KEY_VARIABLE not in policy.kubernetes.secrets:
        raise Unavailable(
            "the policy requires signed checkpoints and names no Secret with the signing key; "
            f"{SIGNING_KEY_HELP}"
        )


def _may_be_partial(attempt: Attempt) -> bool:
    """Is it a gang whose creation was not noted? Some of its objects may be missing.

    Who creates it has that under way itself; what a killed worker left is made anew.
    """
    return attempt.started_at is None and len(attempt.held) > 1


def _times(pods: Sequence[Json], attempt: Attempt) -> dict[str, Any]:
    """When did an attempt begin and stop to hold its GPUs, by the statuses of its pods?

    Kubernetes cuts moments off to the second, so that a start may seem to be before its admission.
    """
    began_at = first_start_at(pods)
    return {
        "started_at": began_at and max(began_at, attempt.admitted_at),
        "held_until": last_end_at(pods),
    }


def _started(job: Json) -> Started:
    metadata = job["metadata"]
    name = f"{metadata['namespace']}:{metadata['name']}"
    return Started(
        started_at=datetime.fromisoformat(metadata["creationTimestamp"]).astimezone(UTC),
        identity=name,
        infrastructure=name,
    )
