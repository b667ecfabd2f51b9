"""How much of a node does each pod of a run take?"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from gpu_core.decisions.kubernetes.manifests import commands
from gpu_core.decisions.kubernetes.manifests.further_gpus import plannable, unplanned
from gpu_core.decisions.kubernetes.manifests.resources import planned_share_milli, pod_size
from gpu_core.decisions.kubernetes.operators.spark import require_whole_gpus
from gpu_core.decisions.kubernetes.variables.variables import PodRequest, parse_pod_request
from gpu_core.decisions.model.pydantic_errors import refuse
from gpu_core.decisions.model.workload import Shape, Workload
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.variables.env_variable import variable_defaults
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.kubernetes.cluster.node_inventory import NodeInventory
from gpu_core.worker.kubernetes.jobs.attempt_request import has_head
from gpu_core.worker.kubernetes.jobs.operator_jobs import OperatorJobs
from gpu_core.worker.kubernetes.jobs.run_references import RunReferences


class PodSizes:
    """Sizes the pods of runs, for the plan and for their creation.

    Args:
        references: What the run's Job refers to, and its further containers.
        custom_jobs: Which operators the cluster has.
        inventory: In how many parts the cluster shares a GPU.
        template: The pool's base job template, as it is now.
    """

    def __init__(
        self,
        references: RunReferences,
        custom_jobs: OperatorJobs,
        inventory: NodeInventory,
        template: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._references = references
        self._custom_jobs = custom_jobs
        self._inventory = inventory
        self._template = template
        self._known: dict[str, tuple[Mapping[str, object], PodRequest]] = {}
        self._known_for: Mapping[str, Any] = {}

    @property
    def fitted_by(self) -> object:
        """The inputs of `fitted` other than its arguments and the pool's template."""
        return (
            self._inventory.shares_per_gpu,
            self._custom_jobs.served,
            self._references.workers_own,
        )

    def fitted(
        self,
        workload: Workload,
        variables: Mapping[str, object],
        policy: Policy,
        flow_name: str,
        *,
        has_deployment: bool,
    ) -> Workload:
        """With the part of a GPU, the CPU and the memory that each of its pods takes of a node.

        It is held where `command` may be the flow's or a container's, and where its variables bring
        into its Job what its team is not permitted.
        """
        request = commands.with_container_command(
            self._asked(workload.workload_id, variables),
            flow_name,
            has_deployment=has_deployment,
        )
        commands.require_a_use(
            request, flow_name, workload.shape.nodes, has_deployment=has_deployment
        )
        workload = commands.held_if_ambiguous(workload, request, has_deployment=has_deployment)
        workload = self._references.checked(workload, variables, request, policy)
        self._custom_jobs.check(request)
        if request.framework == "spark":
            require_whole_gpus(workload.shape)
        share_milli = planned_share_milli(
            workload.shape, policy.kubernetes, self._inventory.shares_per_gpu
        )
        shape = workload.shape._replace(gpu_share_milli=share_milli)
        size = pod_size(shape, request, policy.kubernetes, _only_type(shape))
        self._require_planned_gpus(variables, request, size.gpus, policy.kubernetes)
        cpu_milli, memory_mib = size.cpu_milli, size.memory_mib
        further = self._references.further_size(variables)
        if further is not None:
            cpu_milli, memory_mib = further.pod_total(cpu_milli, memory_mib)
        shape = shape._replace(cpu_milli=cpu_milli, memory_mib=memory_mib)
        return replace(workload, shape=shape)

    def _asked(self, workload_id: str, variables: Mapping[str, object]) -> PodRequest:
        """The pod requests of a run with these variables, parsed once while they do not change."""
        template = self._template()
        if template is not self._known_for:
            if template != self._known_for:
                self._known.clear()
            self._known_for = template
        known_variables, request = self._known.get(workload_id, (None, None))
        if request is None or known_variables is not variables:
            request = parse_pod_request(variables, variable_defaults(template))
            self._known[workload_id] = variables, request
        return request

    def keep(self, flow_run_ids: Collection[str]) -> None:
        """Forget the pod requests of all other runs: they wait no longer."""
        self._known = {key: known for key, known in self._known.items() if key in flow_run_ids}

    def container_shape(
        self, running: AttemptState, request: PodRequest, policy: KubernetesPolicy
    ) -> Shape:
        """The shape with the CPU and memory of the run's own container, as it was planned."""
        shape = running.workload.shape
        further = self._references.further_size(running.variables)
        if further is None or not shape.cpu_milli or not shape.memory_mib:
            return shape
        most_cpu_milli, most_memory_mib = further.left_for_run(shape.cpu_milli, shape.memory_mib)
        unsized = shape._replace(cpu_milli=0, memory_mib=0)
        size = pod_size(unsized, request, policy, _only_type(shape))
        _, asked_mib = further.pod_total(size.cpu_milli, size.memory_mib)
        # What ran out of memory was planned with more than it asks for.
        own_mib = most_memory_mib if shape.memory_mib > asked_mib else size.memory_mib
        return shape._replace(
            cpu_milli=max(1, min(size.cpu_milli, most_cpu_milli)),
            memory_mib=max(1, min(own_mib, most_memory_mib)),
        )

    def _require_planned_gpus(
        self,
        variables: Mapping[str, object],
        request: PodRequest,
        gpus: Mapping[str, int],
        policy: KubernetesPolicy,
    ) -> None:
        """Refuse GPUs of further containers; the start, which knows the node, checks them again.

        Ray and Spark have a pod without GPUs whose containers are the same.
        """
        planned = {} if has_head(request) else plannable(gpus, policy)
        further = self._references.further_requests(variables)
        refuse([*unplanned(further, planned, policy)])


def _only_type(shape: Shape) -> str | None:
    """The one GPU type that a run may get. None: there are several, or all."""
    return shape.gpu_types[0] if len(shape.gpu_types) == 1 else None
