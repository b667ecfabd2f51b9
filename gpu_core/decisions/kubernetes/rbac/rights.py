"""The rights that the worker needs in a cluster, each with its purpose.

The Helm chart grants exactly these; a worker that lacks one says so and goes without it where it
can.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from gpu_core.decisions.kubernetes.variables.frameworks import FRAMEWORKS, Framework
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy, Provisioner


class OptionalPart(StrEnum):
    """A part that an installation may leave out, with the rights for it."""

    FRAMEWORKS = "frameworks"
    """Runs with the frameworks ray, kubeflow and spark."""
    KARPENTER = "karpenter"
    NODE_TASKS = "node tasks"
    """`kubernetes.preflight` and `kubernetes.prepull`."""
    NODE_ANNOTATIONS = "node annotations"
    """The same, and `telemetry.prometheus_url`, by which GPUs are held."""
    PRIORITY_CLASSES = "priority classes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """One verb on one resource, as RBAC has it."""

    verb: str
    resource: str
    """The plural, with its subresource: `pods/log`."""
    group: str = ""
    """The API group; empty: the core."""
    name: str | None = None
    """The only object that it is needed for; None: any."""
    is_cluster_wide: bool = False
    """Is it needed in all namespaces, or for what is in none? Else where runs are."""
    is_of_worker: bool = False
    """Is it needed in the worker's own namespace, and not where runs are?"""
    needed_for: str
    """The function that does not work without it, as a noun phrase."""
    option: OptionalPart | None = None
    """None: every installation needs it."""

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {resource}"


def rights_for(
    policy: KubernetesPolicy, *, has_frameworks: bool = True, has_prometheus: bool = False
) -> tuple[Right, ...]:
    """The rights that a worker with this policy needs.

    Args:
        policy: The policy's section `kubernetes`.
        has_frameworks: Whether an operator of ray, kubeflow or spark is installed.
        has_prometheus: Whether the policy names a `telemetry.prometheus_url`.
    """
    has_node_tasks = policy.preflight is not None or bool(policy.prepull)
    wanted = {
        None: True,
        OptionalPart.FRAMEWORKS: has_frameworks,
        OptionalPart.KARPENTER: policy.provisioner is Provisioner.KARPENTER,
        OptionalPart.NODE_TASKS: has_node_tasks,
        OptionalPart.NODE_ANNOTATIONS: has_node_tasks or has_prometheus,
        OptionalPart.PRIORITY_CLASSES: policy.has_priority_classes,
    }
    return tuple(right for right in RIGHTS if wanted[right.option])


def _watched(
    resource: str, needed_for: str, group: str = "", option: OptionalPart | None = None
) -> Iterator[Right]:
    for verb in ("list", "watch"):
        yield Right(
            verb=verb,
            resource=resource,
            group=group,
            is_cluster_wide=True,
            needed_for=needed_for,
            option=option,
        )


def _of_framework(name: str, framework: Framework) -> Iterator[Right]:
    runs = f"runs with framework {name}"
    resource, group = framework.plural, framework.group
    yield from _watched(resource, runs, group, OptionalPart.FRAMEWORKS)
    for verb in ("create", "get", "delete"):
        yield Right(
            verb=verb,
            resource=resource,
            group=group,
            needed_for=runs,
            option=OptionalPart.FRAMEWORKS,
        )


def _of_runs(
    resource: str,
    needed_for_by_verb: dict[str, str],
    group: str = "",
    option: OptionalPart | None = None,
) -> Iterator[Right]:
    for verb, needed_for in needed_for_by_verb.items():
        yield Right(verb=verb, resource=resource, group=group, needed_for=needed_for, option=option)


def _of_worker(
    resource: str, needed_for_by_verb: dict[str, str], group: str = ""
) -> Iterator[Right]:
    for verb, needed_for in needed_for_by_verb.items():
        yield Right(
            verb=verb, resource=resource, group=group, needed_for=needed_for, is_of_worker=True
        )


RIGHTS: tuple[Right, ...] = (
    Right(
        verb="get",
        resource="namespaces",
        name="kube-system",
        is_cluster_wide=True,
        needed_for="the cluster's name in the ledger",
    ),
    *_watched("nodes", "the GPUs that there are"),
    *_watched("pods", "what runs and other people's pods use of the nodes"),
    *_watched("jobs", "how runs go", group="batch"),
    *_of_runs(
        "jobs",
        {
            "create": "the start of runs",
            "get": "a start that an earlier worker initiated",
            "delete": "the end of runs: cancellation, preemption, time limits",
        },
        group="batch",
    ),
    *_of_runs(
        "pods",
        {
            "patch": "the notice that a run gets before it is ended",
            "delete": "the end of runs: cancellation, preemption, time limits",
        },
    ),
    *_of_runs("pods/log", {"get": "the output of containers on the pages of their runs"}),
    *_of_runs("events", {"list": "why a pod does not start, on the page of its run"}),
    *_of_runs(
        "events",
        {"create": "what happens to a run, in `kubectl describe job`"},
        group="events.k8s.io",
    ),
    *_of_runs(
        "services",
        {
            "create": "how the nodes of a gang find each other",
            "get": "a start of a gang that an earlier worker initiated",
        },
    ),
    *_of_worker(
        "leases",
        {"get": "which worker acts", "update": "which worker acts"},
        group="coordination.k8s.io",
    ),
    *_of_worker("pods", {"get": "which Secrets and ServiceAccount are the worker's own"}),
    *chain.from_iterable(_of_framework(name, each) for name, each in FRAMEWORKS.items()),
    Right(
        verb="list",
        resource="nodepools",
        group="karpenter.sh",
        is_cluster_wide=True,
        needed_for="nodes that Karpenter may still add",
        option=OptionalPart.KARPENTER,
    ),
    Right(
        verb="list",
        resource="priorityclasses",
        group="scheduling.k8s.io",
        is_cluster_wide=True,
        needed_for="the PriorityClasses of queues other than critical, high, medium and low",
        option=OptionalPart.PRIORITY_CLASSES,
    ),
    Right(
        verb="create",
        resource="pods",
        needed_for="kubernetes.preflight and kubernetes.prepull",
        option=OptionalPart.NODE_TASKS,
    ),
    Right(
        verb="patch",
        resource="nodes",
        is_cluster_wide=True,
        needed_for="results of kubernetes.preflight and kubernetes.prepull, and GPUs that are held",
        option=OptionalPart.NODE_ANNOTATIONS,
    ),
)
"""All rights of the worker. Those that are neither cluster-wide nor of the worker's own namespace
are needed in each namespace of runs. The lease is the chart's: the worker need not create it."""
