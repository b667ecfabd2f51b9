"""Reads a cluster part by part, so that one unreadable part does not hide the others."""

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError
from gpu_core.adapters.kubernetes.api import Json
from gpu_core.adapters.ledger import LedgerError
from gpu_core.cli.doctor.prefect_facts import reading_of
from gpu_core.decisions.checks.doctor.clocks import ClockReading, clock_findings
from gpu_core.decisions.checks.doctor.finding import Finding, failed, ok, unknown
from gpu_core.decisions.checks.doctor.helm_release import HelmRelease, release_of
from gpu_core.decisions.checks.doctor.lease import (
    SeenLease,
    installation_finding,
    lease_findings,
    ledgers_finding,
)
from gpu_core.decisions.checks.doctor.nodes import (
    SeenNode,
    node_findings,
    node_pool_findings,
    usable_gpus,
)
from gpu_core.decisions.checks.doctor.quotas import quota_findings
from gpu_core.decisions.checks.doctor.rights import AccessReview, missing_account, rights_findings
from gpu_core.decisions.checks.doctor.versions import kubernetes_version_findings
from gpu_core.decisions.checks.doctor.worker_pods import starts_worker, worker_pod_findings
from gpu_core.decisions.checks.prefect.pool_claim import PoolClaim
from gpu_core.decisions.kubernetes.manifests.names import job_name
from gpu_core.decisions.kubernetes.nodes.held_gpus import held_on, without_held
from gpu_core.decisions.kubernetes.nodes.karpenter_node_pools import NodePoolOffer, node_pool_offer
from gpu_core.decisions.kubernetes.nodes.nodes import NodeFacts, node_facts
from gpu_core.decisions.kubernetes.nodes.template_constraints import admits, pod_spec_of
from gpu_core.decisions.kubernetes.rbac.rights import OptionalPart, Right, rights_for
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy, Provisioner
from gpu_core.decisions.policy.quotas import QuotaPolicy

_PART_S = 10.0
"""For each part: a cluster that answers at all answers a list of a thousand nodes in that time."""

_AT_ONCE = 10
_REVIEWS = "/apis/authorization.k8s.io/v1/{}"
_LEASES = "/apis/coordination.k8s.io/v1{}/leases"
_NODE_POOLS = "/apis/karpenter.sh/v1/nodepools"
# What `job_name` puts in front of the pool's name.
_LEASE_PREFIX = "gpu-pool-"
_WORKERS_NAMES = "system:serviceaccount:"
_FORBIDDEN = 403


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQuestion:
    """The requests to a cluster.

    Attributes:
        pool: The work pool's name; None: no pool is checked.
        policy: The policy's section `kubernetes`.
        quotas: The policy's section `quotas`; None: no team is limited.
        lease_namespace: The worker's own, where its lease lives; None: not known here.
        service_account: `NAMESPACE/NAME` whose rights are asked for; None: our own.
        cluster_config: A kubeconfig and its context; None: look for one.
        read_claim: Reads which installation acts for the pool; None: no ledger can be asked.
        claim_in_prefect: Which installation acts, by Prefect; None: Prefect does not say.
        has_prometheus: Whether the policy names a Prometheus, by which GPUs are held.
    """

    pool: str | None
    policy: KubernetesPolicy
    template: Mapping[str, Any]
    namespaces: tuple[str, ...]
    lease_namespace: str | None
    service_account: str | None
    cluster_config: tuple[dict[str, Any], str | None] | None
    quotas: QuotaPolicy | None = None
    read_claim: Callable[[], PoolClaim | None] | None = None
    claim_in_prefect: PoolClaim | None = None
    has_prometheus: bool = False


async def examine_cluster(question: ClusterQuestion) -> list[Finding]:
    """All findings about the cluster, in a fixed order."""
    config, context = question.cluster_config or (None, None)
    try:
        api = await KubernetesApi.connect(config, context)
    except KubernetesError as error:
        return [failed("kubernetes.api", error.message)]
    try:
        first, clock = await _first_answer(api, question.policy)
        if clock is None:
            return first
        return first + await _all_parts(api, question, clock.theirs or datetime.now(UTC))
    finally:
        await api.close()


async def _first_answer(
    api: KubernetesApi, policy: KubernetesPolicy
) -> tuple[list[Finding], ClockReading | None]:
    """Is it there at all? Without an answer there is no clock, and nothing else is asked."""
    before, began_s = datetime.now(UTC), time.perf_counter()
    try:
        with anyio.fail_after(_PART_S):
            version, date = await api.version()
    except (KubernetesError, TimeoutError) as error:
        text = str(error) or f"timed out after {_PART_S:.0f}s"
        return [failed("kubernetes.api", f"Unable to connect to the cluster: {text}", _REACH)], None
    took_s = time.perf_counter() - began_s
    middle = before + (datetime.now(UTC) - before) / 2
    clock = reading_of("the Kubernetes API server", date, middle, took_s)
    found = [ok("kubernetes.api", f"answers in {took_s:.2f} s")]
    found += kubernetes_version_findings(version, policy.version)
    return [*found, *clock_findings([clock])], clock


_REACH = "please check KUBECONFIG, the cluster block of the pool and your network connection"


async def _all_parts(api: KubernetesApi, question: ClusterQuestion, now: datetime) -> list[Finding]:
    parts: list[tuple[str, Callable[[], Awaitable[list[Finding]]]]] = [
        ("rights.review", partial(_rights, api, question))
    ]
    if question.pool is not None:
        parts += [
            ("lease.holder", partial(_lease, api, question, question.pool, now)),
            ("worker.pods", partial(_worker_pods, api, question.pool)),
        ]
    parts.append(("nodes.gpus", partial(_nodes, api, question)))
    found: dict[str, list[Finding]] = {}

    async def examine(check: str, part: Callable[[], Awaitable[list[Finding]]]) -> None:
        try:
            with anyio.fail_after(_PART_S):
                found[check] = await part()
        except TimeoutError:
            found[check] = [unknown(check, f"timed out after {_PART_S:.0f}s")]
        except KubernetesError as error:
            found[check] = [unknown(check, f"cannot be read: {error}")]

    async with anyio.create_task_group() as tasks:
        for check, part in parts:
            tasks.start_soon(examine, check, part)
    return [finding for check, _ in parts for finding in found[check]]


# -- rights ------------------------------------------------------------------------------------


async def _rights(api: KubernetesApi, question: ClusterQuestion) -> list[Finding]:
    if question.service_account is not None and not await _is_there(api, question.service_account):
        return [missing_account(question.service_account)]
    served = await _served_groups(api)
    rights = [
        right
        for right in rights_for(question.policy, has_prometheus=question.has_prometheus)
        if (right.option is not OptionalPart.FRAMEWORKS or right.group in served)
        and (question.pool is not None or right.resource != "leases")
    ]
    asked = [(right, place) for right in rights for place in _places(right, question)]
    answers: dict[int, bool | None] = {}
    limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def ask(index: int, right: Right, namespace: str | None) -> None:
        async with limiter:
            answers[index] = await _may(api, right, namespace, question)

    async with anyio.create_task_group() as tasks:
        for index, (right, namespace) in enumerate(asked):
            tasks.start_soon(ask, index, right, namespace)
    user = await _user(api, question.service_account)
    return list(
        rights_findings(
            user,
            [
                AccessReview(right=right, namespace=place, is_allowed=answers[index])
                for index, (right, place) in enumerate(asked)
            ],
            is_workers=user is None or user.startswith(_WORKERS_NAMES),
            release=await _release(api, question.pool),
        )
    )


async def _is_there(api: KubernetesApi, service_account: str) -> bool:
    """Is there such a ServiceAccount, as far as one may see? The API grants rights to any name."""
    namespace, _, name = service_account.partition("/")
    try:
        return await api.find(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}") is not None
    except KubernetesError as error:
        if error.is_retryable:
            raise
        return True


def _places(right: Right, question: ClusterQuestion) -> tuple[str | None, ...]:
    if right.is_cluster_wide:
        return (None,)
    if right.is_of_worker:
        return (question.lease_namespace or question.namespaces[0],)
    return question.namespaces


async def _served_groups(api: KubernetesApi) -> set[str]:
    answer = await api.get("/apis")
    return {str(group.get("name")) for group in answer.get("groups") or ()}


async def _may(
    api: KubernetesApi, right: Right, namespace: str | None, question: ClusterQuestion
) -> bool | None:
    """May it? None: the cluster does not say."""
    service_account = question.service_account
    resource, _, subresource = right.resource.partition("/")
    # The worker has the right on its pool's lease alone.
    name = _lease_name(question.pool or "") if resource == "leases" else right.name
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "name": name or "",
        "namespace": namespace or "",
    }
    spec: Json = {"resourceAttributes": attributes}
    kind = "SelfSubjectAccessReview"
    if service_account is not None:
        kind = "SubjectAccessReview"
        spec |= _identity(service_account)
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    try:
        answer = await api.create(_REVIEWS.format(f"{kind.lower()}s"), body)
    except KubernetesError as error:
        if error.is_retryable:
            raise
        return None
    return bool((answer.get("status") or {}).get("allowed"))


def _identity(service_account: str) -> Json:
    namespace, _, name = service_account.partition("/")
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    return {
        "user": f"{_WORKERS_NAMES}{namespace}:{name}",
        "groups": [*groups, "system:authenticated"],
    }


async def _user(api: KubernetesApi, service_account: str | None) -> str | None:
    """The user whose rights were asked for.

    None: the cluster is older than 1.28 and does not say.
    """
    if service_account is not None:
        return f"{_WORKERS_NAMES}{service_account.replace('/', ':')}"
    body: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
    except KubernetesError:
        return None
    name = ((answer.get("status") or {}).get("userInfo") or {}).get("username")
    return None if name is None else str(name)


# -- lease -------------------------------------------------------------------------------------


async def _lease(
    api: KubernetesApi, question: ClusterQuestion, pool: str, now: datetime
) -> list[Finding]:
    name = _lease_name(pool)
    places = question.lease_namespace, *question.namespaces, "default"
    known = tuple(dict.fromkeys(place for place in places if place))
    looked_in: tuple[str, ...] | None = None
    try:
        items = [item async for page, _ in api.pages(_LEASES.format("")) for item in page]
    except KubernetesError as error:
        if error.is_retryable:
            raise
        items, looked_in = await _leases_in(api, known, name)
    leases = [_seen_lease(item) for item in items if _is_of_a_pool(item)]
    claim = await _claim(question)
    cluster = None if claim is None else await _uid(api)
    found: Iterable[Finding] = lease_findings(
        pool, name, leases, now, looked_in=looked_in, claim=claim, cluster=cluster
    )
    if claim is None:
        return list(found)
    namespace = question.lease_namespace
    found = [*found, installation_finding(claim, now, cluster=cluster, namespace=namespace)]
    if question.claim_in_prefect is None:
        return found
    ledgers = ledgers_finding(claim, question.claim_in_prefect, now, cluster=cluster)
    return found if ledgers is None else [*found, ledgers]


async def _claim(question: ClusterQuestion) -> PoolClaim | None:
    """The acting installation; None also if the ledger names none, which has its own check."""
    if question.read_claim is None:
        return None
    try:
        return await anyio.to_thread.run_sync(question.read_claim, abandon_on_cancel=True)
    except (LedgerError, InvalidInput):
        return None


async def _uid(api: KubernetesApi) -> str | None:
    """The uid by which this cluster is known; None: it may not be read."""
    try:
        system = await api.get("/api/v1/namespaces/kube-system")
    except KubernetesError:
        return None
    return str(system["metadata"]["uid"])


async def _leases_in(
    api: KubernetesApi, namespaces: tuple[str, ...], name: str
) -> tuple[list[Json], tuple[str, ...]]:
    """The pool's lease in these namespaces, and which of them could be looked in.

    The worker may read its pool's lease in its own namespace, and list none.

    Raises:
        KubernetesError: None of them could be looked in.
    """
    found: dict[str, Json | None] = {}
    refusal: KubernetesError | None = None
    for namespace in namespaces:
        try:
            found[namespace] = await api.find(
                f"{_LEASES.format(f'/namespaces/{namespace}')}/{name}"
            )
        except KubernetesError as error:
            if error.is_retryable:
                raise
            refusal = error
    if refusal is not None and not found:
        raise refusal
    return [item for item in found.values() if item is not None], tuple(found)


def _lease_name(pool: str) -> str:
    return job_name(f"pool-{pool}")


def _is_of_a_pool(item: Json) -> bool:
    return str(item["metadata"]["name"]).startswith(_LEASE_PREFIX)


def _seen_lease(item: Json) -> SeenLease:
    spec = item.get("spec") or {}
    renewed = spec.get("renewTime")
    return SeenLease(
        namespace=item["metadata"]["namespace"],
        name=item["metadata"]["name"],
        holder=spec.get("holderIdentity") or None,
        renewed_at=None if renewed is None else datetime.fromisoformat(renewed),
        duration_s=spec.get("leaseDurationSeconds") or 0,
        transitions=spec.get("leaseTransitions") or 0,
    )


async def _worker_pods(api: KubernetesApi, pool: str) -> list[Finding]:
    pods = await _labeled_pods(api)
    return list(worker_pod_findings(pool, "gpu-kubernetes", pods))


async def _release(api: KubernetesApi, pool: str | None) -> HelmRelease | None:
    """The Helm release of the pool's workers; None: there is none, or it cannot be read."""
    if pool is None:
        return None
    try:
        pods = await _labeled_pods(api)
    except KubernetesError:
        return None
    return release_of(pod for pod in pods if starts_worker(pod, pool, "gpu-kubernetes"))


async def _labeled_pods(api: KubernetesApi) -> list[Json]:
    label = {"labelSelector": "app.kubernetes.io/component=worker"}
    return [pod async for page, _ in api.pages("/api/v1/pods", label) for pod in page]


# -- nodes -------------------------------------------------------------------------------------


async def _nodes(api: KubernetesApi, question: ClusterQuestion) -> list[Finding]:
    policy = question.policy
    nodes = [item async for page, _ in api.pages("/api/v1/nodes") for item in page]
    pods = await _pods_by_node(api)
    pod_spec = pod_spec_of(question.template)
    seen = [_seen_node(node, pods, question, admits(pod_spec, node)) for node in nodes]
    may_add = policy.provisioner is Provisioner.KARPENTER or bool(policy.provisioned)
    facts = [node.facts for node in seen if node.facts is not None]
    found = list(node_findings(seen, may_add=may_add))
    if not may_add:
        gpus = usable_gpus(seen)
        found += quota_findings(question.quotas, gpus.total(), gpus)
    try:
        offers = await _offers(api, facts, policy)
    except KubernetesError as error:
        if error.status == _FORBIDDEN and policy.provisioner is not Provisioner.KARPENTER:
            return found  # a worker that does not plan with NodePools has no right to read them
        return [*found, unknown("node-pools.karpenter", f"NodePools cannot be read: {error}")]
    return [*found, *node_pool_findings(policy.provisioner, offers)]


async def _pods_by_node(api: KubernetesApi) -> Mapping[str, list[Json]]:
    found: dict[str, list[Json]] = defaultdict(list)
    async for page, _ in api.pages("/api/v1/pods"):
        for pod in page:
            node = pod["spec"].get("nodeName")
            if node and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                found[node].append(pod)
    return found


def _seen_node(
    node: Json, pods: Mapping[str, list[Json]], question: ClusterQuestion, is_admitted: bool
) -> SeenNode:
    name = node["metadata"]["name"]
    try:
        facts = node_facts(node, pods.get(name, ()), question.policy, pool=question.pool or "")
    except InvalidInput as error:
        return SeenNode(name=name, facts=None, error=str(error))
    held = tuple(held_on(node).values())
    if facts is not None:
        facts = replace(facts, node=without_held(facts.node, held))
    return SeenNode(name=name, facts=facts, is_admitted=is_admitted, held=held)


async def _offers(
    api: KubernetesApi, facts: list[NodeFacts], policy: KubernetesPolicy
) -> dict[str, NodePoolOffer] | None:
    """The nodes that each NodePool may add; None: the cluster serves no NodePools."""
    answer = await api.find(_NODE_POOLS)
    if answer is None:
        return None
    items = answer.get("items") or ()
    return {item["metadata"]["name"]: _offer(item, facts, policy) for item in items}


def _offer(item: Json, facts: list[NodeFacts], policy: KubernetesPolicy) -> NodePoolOffer:
    try:
        return node_pool_offer(item, facts, policy.gpu_resource)
    except (InvalidInput, ValueError) as error:
        return NodePoolOffer(refusals=(str(error),))
