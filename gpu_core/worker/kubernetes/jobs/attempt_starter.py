"""Creates what runs an attempt in the cluster, and says what a refusal means for its run."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from prefect.workers.base import BaseJobConfiguration

from gpu_core.adapters.kubernetes import KubernetesError
from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.checkpoints.trust import SIGNING_KEY_HELP, SIGNING_KEY_VARIABLE
from gpu_core.decisions.kubernetes.manifests.launch import Launch
from gpu_core.decisions.kubernetes.nodes.virtual_nodes import wanted_for
from gpu_core.decisions.kubernetes.status.api_errors import why_refused
from gpu_core.decisions.kubernetes.status.outcome import Cause
from gpu_core.decisions.kubernetes.status.pod_pending import refused
from gpu_core.decisions.model.errors import sentences
from gpu_core.decisions.policy.kubernetes import SecretReference
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import NotStarted, Postponed, Refused, Started, Unavailable
from gpu_core.worker.kubernetes.cluster.event_recorder import EventRecorder
from gpu_core.worker.kubernetes.cluster.node_inventory import NodeInventory
from gpu_core.worker.kubernetes.cluster.priority_classes import PriorityClasses
from gpu_core.worker.kubernetes.cluster.server_version import ServerVersion
from gpu_core.worker.kubernetes.jobs.attempt_objects import AttemptObjects
from gpu_core.worker.kubernetes.jobs.attempt_request import is_container_job, request_at_start
from gpu_core.worker.kubernetes.jobs.creations import Creations
from gpu_core.worker.kubernetes.jobs.pod_sizes import PodSizes
from gpu_core.worker.kubernetes.jobs.run_references import RunReferences
from gpu_core.worker.kubernetes.logs.attempt_output import AttemptOutput
from gpu_core.worker.kubernetes.variables import GpuKubernetesJobConfiguration


class AttemptStarter:
    """Starts the attempts of one pool.

    Args:
        pool: The pool's name.
        objects: Creates.
        creations: Notes which creations are under way.
        references: What a run may refer to.
        sizes: What a container takes of its node.
        offers: The nodes with GPUs.
        priority_classes: The classes of the queues.
        version: What the cluster's version knows.
        output: Follows what the pods write.
        recorder: Records Events on what was created.
        prefect_secrets: Where flows get Prefect's keys from, by variable; none: in plain text.
    """

    def __init__(
        self,
        *,
        pool: str,
        objects: AttemptObjects,
        creations: Creations,
        references: RunReferences,
        sizes: PodSizes,
        offers: NodeInventory,
        priority_classes: PriorityClasses,
        version: ServerVersion,
        output: AttemptOutput,
        recorder: EventRecorder,
        prefect_secrets: Mapping[str, SecretReference],
    ) -> None:
        self._pool = pool
        self._objects = objects
        self._creations = creations
        self._references = references
        self._sizes = sizes
        self._offers = offers
        self._priority_classes = priority_classes
        self._version = version
        self._output = output
        self._recorder = recorder
        self._prefect_secrets = prefect_secrets

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
            NotStarted: It can be created another time.
            Postponed: A ResourceQuota has no room for it.
            Unavailable: Its checkpoints have to be signed, and the policy names no Secret for that.
            Refused: The cluster refuses it, or it refers to what its team is not permitted.
        """
        if not isinstance(configuration, GpuKubernetesJobConfiguration):
            raise TypeError(
                f"{type(configuration).__name__} is not a configuration of a gpu-kubernetes pool"
            )
        manifest = configuration.job_manifest
        request = request_at_start(running)
        await self._references.require_permitted(running, manifest, request, policy)
        launch = self.launch_of(running, context, environment, policy)
        if launch.is_flow and context.requires_signatures:
            _require_signing_key(policy)
        created = await self._create(running.attempt.attempt_id, manifest, launch, policy)
        self._recorder.created(running.attempt.attempt_id, created)
        return replace(started_as(created), started_at=datetime.now(UTC))

    async def _create(
        self, attempt_id: str, manifest: Json, launch: Launch, policy: Policy
    ) -> Json:
        self._creations.note_request(attempt_id)
        self._output.begin(attempt_id)
        applied = self._version.applied_to(policy.kubernetes)
        try:
            return await self._objects.create(manifest, launch, applied)
        except KubernetesError as error:
            # 401: it is the worker that is not known, for as long as its credentials are old.
            if error.is_retryable or error.status == 401:
                # No answer is no refusal: it may be there all the same, and is given time to show.
                self._creations.note_request(attempt_id)
                raise NotStarted(str(error)) from error
            self._creations.note_refusal(attempt_id)
            found = refused(error.message)
            if found.cause is Cause.QUOTA_REFUSED:
                raise Postponed(found.message) from error
            raise Refused(why_refused(error.message)) from error

    def launch_of(
        self,
        running: AttemptState,
        context: RunContext,
        environment: Mapping[str, str],
        policy: Policy,
    ) -> Launch:
        """What is to be created for this attempt?"""
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


def started_as(created: Json) -> Started:
    """The attempt that this object runs, as the ledger records it."""
    metadata = created["metadata"]
    name = f"{metadata['namespace']}:{metadata['name']}"
    return Started(
        started_at=datetime.fromisoformat(metadata["creationTimestamp"]).astimezone(UTC),
        identity=name,
        infrastructure=name,
    )


def _require_signing_key(policy: Policy) -> None:
    if SIGNING_KEY_VARIABLE not in policy.kubernetes.secrets:
        raise Unavailable(
            sentences(
                "the policy requires signed checkpoints but does not specify a Secret with the "
                "signing key",
                SIGNING_KEY_HELP,
            )
        )
