"""Each check of `doctor`, as a table: facts come in, findings go out."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.checks.doctor.clocks import (
    FAILURE_S,
    WARNING_S,
    ClockReading,
    clock_findings,
)
from gpu_core.decisions.checks.doctor.finding import Status, has_failed
from gpu_core.decisions.checks.doctor.helm_release import HelmRelease, release_of, right_remedy
from gpu_core.decisions.checks.doctor.lease import (
    SeenLease,
    installation_finding,
    lease_findings,
    ledgers_finding,
)
from gpu_core.decisions.checks.doctor.nodes import SeenNode, node_findings, node_pool_findings
from gpu_core.decisions.checks.doctor.prefect_pool import (
    Heartbeat,
    heartbeat_findings,
    missing_pool_finding,
    pool_findings,
)
from gpu_core.decisions.checks.doctor.rights import AccessReview, rights_findings
from gpu_core.decisions.checks.doctor.services import (
    LedgerProbe,
    MlflowProbe,
    SeenGpu,
    StoreProbe,
    ledger_findings,
    machine_findings,
    mlflow_finding,
    store_finding,
)
from gpu_core.decisions.checks.doctor.template_drift import drift_findings
from gpu_core.decisions.checks.doctor.versions import (
    Requirement,
    kubernetes_version_findings,
    package_findings,
    prefect_version_finding,
)
from gpu_core.decisions.checks.prefect.pool_claim import Installation, PoolClaim
from gpu_core.decisions.checks.prefect.pool_status import PoolStatus, QueueStatus, SeenWorker
from gpu_core.decisions.kubernetes.nodes.held_gpus import without_held
from gpu_core.decisions.kubernetes.nodes.karpenter_node_pools import NodePoolOffer
from gpu_core.decisions.kubernetes.nodes.nodes import node_facts
from gpu_core.decisions.kubernetes.rbac.rights import RIGHTS, OptionalPart, Right
from gpu_core.decisions.model.gpu_health import HealthVerdict, HeldGpu
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy, Provisioner
from gpu_core.decisions.policy.provisioned_nodes import ProvisionedNodes

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
QUEUES = ("critical", "high", "medium", "low")

Want = list[tuple[str, str]]


def said(findings: Any) -> Want:
    """The status and the message of each."""
    return [(found.status.value, found.text) for found in findings]


def check(findings: Any, want: Want) -> None:
    """Are these the findings, with these texts in them?"""
    got = said(findings)
    assert [status for status, _ in got] == [status for status, _ in want], got
    for (_, text), (_, part) in zip(got, want, strict=True):
        assert part in text


# -- versions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "server", "is_cloud", "want"),
    [
        pytest.param("3.8.8", "3.8.8", False, ("ok", "3.8.8"), id="the same"),
        pytest.param("3.8.8", "3.9.0", False, ("ok", "3.9.0"), id="a newer server"),
        pytest.param("3.8.8", "3.8.2", False, ("ok", "3.8.2"), id="an older patch"),
        pytest.param(
            "3.8.8",
            "3.7.9",
            False,
            ("warning", "older than the client version"),
            id="an older server",
        ),
        pytest.param(
            "3.8.8",
            None,
            False,
            ("unknown", "Unable to determine the server version"),
            id="no version",
        ),
        pytest.param("3.8.8", None, True, ("ok", "Prefect Cloud"), id="Prefect Cloud"),
    ],
)
def test_prefects_versions(
    client: str, server: str | None, is_cloud: bool, want: tuple[str, str]
) -> None:
    check([prefect_version_finding(client, server, is_cloud=is_cloud)], [want])


@pytest.mark.parametrize(
    ("server", "policy", "want"),
    [
        pytest.param("v1.34.2-eks-1", "1.34", ("ok", "v1.34.2-eks-1"), id="as the policy says"),
        pytest.param("v1.36.0", "1.34", ("ok", "v1.36.0"), id="newer, nothing of it used"),
        pytest.param(
            "v1.24.0",
            "1.34",
            (
                "failed",
                'silently ignored: pod failure policy. Please set `kubernetes.version` to "1.24"',
            ),
            id="older than the policy",
        ),
        pytest.param(
            "v1.34.0", "1.20", ("warning", "The following fields are not used: "), id="newer"
        ),
        pytest.param(
            "v1.19.3",
            "1.19",
            ("failed", "older than the minimum supported version 1.20"),
            id="too old",
        ),
        pytest.param("latest", "1.34", ("unknown", "reported an invalid version"), id="no version"),
    ],
)
def test_kubernetes_versions(server: str, policy: str, want: tuple[str, str]) -> None:
    check(kubernetes_version_findings(server, policy), [want])


def test_packages_that_do_not_fit_are_named() -> None:
    known = (
        Requirement(name="prefect", wanted=">=3.8.8", installed="3.8.8", is_met=True),
        Requirement(name="fastapi", wanted="<0.151", installed="0.155.0", is_met=False),
        Requirement(name="psutil", wanted="", installed=None, is_met=False),
    )
    check(
        package_findings("0.1.0", "3.11.7", known),
        [
            ("ok", "prefect-gpu 0.1.0, Python 3.11.7, prefect 3.8.8"),
            (
                "failed",
                "fastapi is 0.155.0, but prefect-gpu requires <0.151. Run: pip install 'fastapi<0",
            ),
            ("failed", "psutil is not installed"),
        ],
    )


# -- Prefect -----------------------------------------------------------------------------------


def a_pool(**fields: Any) -> PoolStatus:
    """A pool that is as it should be, with these fields."""
    values: dict[str, Any] = {
        "name": "gpu",
        "worker_type": "gpu-kubernetes",
        "queues": tuple(QueueStatus(name=name) for name in (*QUEUES, "default")),
        "workers": (SeenWorker(name="w", worker_type="gpu-kubernetes"),),
    }
    return PoolStatus(**(values | fields))


@pytest.mark.parametrize(
    ("pool", "want_type", "want"),
    [
        pytest.param(a_pool(), None, [("ok", "gpu"), ("ok", "5 queues")], id="as it should be"),
        pytest.param(
            a_pool(worker_type="process"),
            None,
            [("failed", "of type 'process', not gpu-process or gpu-kubernetes")],
            id="another type",
        ),
        pytest.param(
            a_pool(),
            "gpu-process",
            [("failed", "of type 'gpu-kubernetes', not gpu-process")],
            id="the other of our types",
        ),
        pytest.param(
            a_pool(is_paused=True),
            None,
            [("ok", ""), ("warning", "prefect work-pool resume gpu"), ("ok", "")],
            id="paused",
        ),
        pytest.param(
            a_pool(workers=()),
            None,
            [("ok", ""), ("failed", "prefect worker start --pool gpu"), ("ok", "")],
            id="no worker",
        ),
        pytest.param(
            a_pool(workers=(SeenWorker(name="w", worker_type="process"),)),
            None,
            [("ok", ""), ("warning", "of type 'process'"), ("failed", "No gpu-kub"), ("ok", "")],
            id="a stranger alone",
        ),
        pytest.param(
            a_pool(queues=(QueueStatus(name="high"), QueueStatus(name="urgent"))),
            None,
            [
                ("ok", ""),
                (
                    "warning",
                    "3 queues defined in the policy not found in the pool: critical, low, medium",
                ),
                ("warning", "1 queue not defined in the policy: urgent. Runs in these queues"),
            ],
            id="other queues",
        ),
    ],
)
def test_pools(pool: PoolStatus, want_type: str | None, want: Want) -> None:
    check(pool_findings(pool, QUEUES, want_type), want)


def test_a_missing_pool_is_named_with_the_nearest() -> None:
    check(
        [missing_pool_finding("gpuu", ["gpu"], None)],
        [("failed", "Did you mean 'gpu'? GPU pools: gpu. Run: prefect-gpu setup --pool gpuu")],
    )


def test_heartbeats() -> None:
    seen = NOW - timedelta(seconds=12)
    online = Heartbeat(name="a", seen_at=seen, is_online=True)
    check(heartbeat_findings("gpu", "gpu-process", [online], NOW), [("ok", "a (12 s ago)")])
    gone = replace(online, is_online=False)
    check(
        heartbeat_findings("gpu", "gpu-process", [gone], NOW),
        [("unknown", "The last heartbeat was sent by worker a (12 s ago)")],
    )
    check(heartbeat_findings("gpu", "gpu-process", [], NOW), [])


NEWEST: dict[str, Any] = {
    "variables": {"properties": {"image": {"type": "string"}, "nodes": {"type": "integer"}}},
    "job_configuration": {"image": "{{ image }}", "args": [{"a": 1}]},
}


@pytest.mark.parametrize(
    ("current", "want"),
    [
        pytest.param(NEWEST, [("ok", "matches this version")], id="as new"),
        pytest.param(
            {}, [("warning", "2 job variables missing"), ("ok", "1 custom change")], id="{}"
        ),
        pytest.param(
            {**NEWEST, "variables": {"properties": {"image": {"type": "string"}}}},
            [("warning", "1 job variable missing from the base job template: nodes. To add them")],
            id="of a version before",
        ),
        pytest.param(
            {
                **NEWEST,
                "variables": {
                    "properties": {"image": {"type": "string"}, "nodes": {"type": "string"}}
                },
            },
            [
                (
                    "warning",
                    "1 job variable different from this version: nodes. These changes",
                )
            ],
            id="another type",
        ),
        pytest.param(
            {**NEWEST, "job_configuration": {"image": "x", "args": [{"a": 2}]}},
            [("ok", "2 custom changes, preserved by prefect-gpu setup")],
            id="edited",
        ),
    ],
)
def test_template_drift(current: dict[str, Any], want: Want) -> None:
    check(drift_findings("gpu", "gpu-kubernetes", current, NEWEST), want)


def test_edits_are_named_by_their_paths() -> None:
    current = {
        "variables": {
            "properties": {
                "image": {"type": "string", "default": "ours:1"},
                "nodes": {"type": "integer"},
                "zone": {},
            }
        },
        "job_configuration": {"image": "{{ image }}", "args": [{"a": 2}]},
    }
    (found,) = drift_findings("gpu", "gpu-kubernetes", current, NEWEST)
    assert found.details == (
        "default of image: 'ours:1'",
        "own variable zone",
        "job_configuration.args[0].a",
    )


# -- rights ------------------------------------------------------------------------------------

LOGS = next(right for right in RIGHTS if right.resource == "pods/log")
JOBS = next(right for right in RIGHTS if (right.verb, right.resource) == ("create", "jobs"))


@pytest.mark.parametrize("right", RIGHTS, ids=lambda right: f"{right} {right.name or ''}".strip())
def test_each_right_that_is_missing_is_named(right: Right) -> None:
    """With what does not work without it; those that the worker can do without only warn."""
    answers = [
        AccessReview(right=each, namespace=None, is_allowed=each is not right) for each in RIGHTS
    ]
    missing = [
        found
        for found in rights_findings("w", answers, is_workers=True)
        if found.check == "rights.missing"
    ]
    (found,) = missing
    assert f"w may not {right} in all namespaces: needed for {right.needed_for}" in found.message
    is_needed = right.resource not in ("pods/log", "events")
    assert (found.status is Status.FAILED) == is_needed


def test_rights() -> None:
    answers = [
        AccessReview(right=JOBS, namespace="ml", is_allowed=True),
        AccessReview(right=LOGS, namespace="ml", is_allowed=False),
        AccessReview(right=JOBS, namespace="b", is_allowed=None),
    ]
    found = list(rights_findings("alice", answers, is_workers=False))
    check(
        found,
        [
            ("warning", "alice may not get pods/log in namespace ml: needed for the output"),
            ("unknown", "Unable to list all permissions of alice"),
            ("ok", "alice has 1 of 3 rights"),
            ("unknown", "--service-account NAMESPACE/NAME"),
        ],
    )
    assert found[2].details[0].startswith("yes: create jobs.batch in namespace ml, for the start")


RELEASE = HelmRelease(name="gpu", namespace="gpu-system")
UPGRADE = "helm upgrade gpu infra/helm/prefect-gpu --namespace gpu-system --reuse-values"


@pytest.mark.parametrize(
    ("right", "namespace", "want"),
    [
        pytest.param(
            Right(
                verb="list", resource="rayjobs", needed_for="runs", option=OptionalPart.FRAMEWORKS
            ),
            None,
            f"{UPGRADE} --set frameworks.ray=true",
            id="of a framework",
        ),
        pytest.param(
            Right(
                verb="create", resource="pods", needed_for="tests", option=OptionalPart.NODE_TASKS
            ),
            None,
            f"{UPGRADE} --set nodeAnnotations.enabled=true",
            id="of node tasks",
        ),
        pytest.param(
            Right(
                verb="patch",
                resource="nodes",
                needed_for="holds",
                option=OptionalPart.NODE_ANNOTATIONS,
            ),
            None,
            f"{UPGRADE} --set nodeAnnotations.enabled=true",
            id="of held GPUs",
        ),
        pytest.param(
            Right(
                verb="list", resource="nodepools", needed_for="plans", option=OptionalPart.KARPENTER
            ),
            None,
            f"{UPGRADE} --set-file policy=POLICY_FILE",
            id="of the policy",
        ),
        pytest.param(
            JOBS,
            "ml",
            f"add ml to runs.namespaces of VALUES_FILE, then: {UPGRADE} --values VALUES_FILE",
            id="in a namespace of runs",
        ),
        pytest.param(
            Right(verb="list", resource="nodes", needed_for="plans", is_cluster_wide=True),
            None,
            UPGRADE,
            id="of every installation",
        ),
    ],
)
def test_a_missing_right_of_a_release_is_a_value_of_it(
    right: Right, namespace: str | None, want: str
) -> None:
    answer = AccessReview(right=right, namespace=namespace, is_allowed=False)
    found, *_ = rights_findings("w", [answer], is_workers=True, release=RELEASE)
    assert found.remedy == want


def test_every_option_of_a_right_has_a_remedy() -> None:
    for right in RIGHTS:
        assert right_remedy(RELEASE, right, None).startswith(UPGRADE)


def test_a_worker_of_another_chart_is_of_no_release() -> None:
    labels = {"app.kubernetes.io/instance": "w", "app.kubernetes.io/name": "prefect-worker"}
    pod: dict[str, Any] = {"metadata": {"namespace": "gpu-system", "labels": labels}}
    assert release_of([pod]) is None
    labels |= {"app.kubernetes.io/instance": "gpu", "app.kubernetes.io/name": "prefect-gpu"}
    assert release_of([pod]) == RELEASE


# -- lease -------------------------------------------------------------------------------------


def a_lease(**fields: Any) -> SeenLease:
    """The pool's lease, held and just renewed, with these fields."""
    values: dict[str, Any] = {
        "namespace": "ml",
        "name": "gpu-pool-gpu",
        "holder": "w-1",
        "renewed_at": NOW - timedelta(seconds=2),
        "duration_s": 10,
        "transitions": 3,
    }
    return SeenLease(**(values | fields))


STALE = NOW - timedelta(seconds=75)


@pytest.mark.parametrize(
    ("leases", "want"),
    [
        pytest.param(
            [a_lease()], [("ok", "w-1 acts, renewed 2 s ago, in ml (3 changes")], id="held"
        ),
        pytest.param([], [("unknown", "Lease gpu-pool-gpu not found in any namespace")], id="none"),
        pytest.param(
            [a_lease(renewed_at=STALE)],
            [("failed", "w-1 has not renewed the lease in ml for 75 s (lease duration: 10s)")],
            id="stale",
        ),
        pytest.param(
            [a_lease(holder=None)], [("failed", "is not held by any worker")], id="released"
        ),
        pytest.param(
            [a_lease(), a_lease(namespace="b", holder="w-2")],
            [("failed", "2 workers are active for pool 'gpu': w-1 in ml and w-2 in b. This")],
            id="two holders",
        ),
        pytest.param(
            [a_lease(), a_lease(namespace="b", holder="w-2", renewed_at=STALE)],
            [("ok", "w-1 acts")],
            id="an old one next to it",
        ),
        pytest.param(
            [a_lease(), a_lease(name="gpu-pool-b", holder="w-2")],
            [("ok", ""), ("warning", "w-2 acts for another pool in the same namespace (ml/gpu-po")],
            id="a second installation",
        ),
        pytest.param(
            [a_lease(), a_lease(name="gpu-pool-b", holder="w-2", renewed_at=STALE)],
            [("ok", "")],
            id="one that is gone",
        ),
    ],
)
def test_leases(leases: list[SeenLease], want: Want) -> None:
    check(lease_findings("gpu", "gpu-pool-gpu", leases, NOW, looked_in=None), want)


def a_claim(cluster: str = "c1", namespace: str = "ml", age_s: float = 20) -> PoolClaim:
    """The claim of the installation in this namespace, renewed so long ago."""
    return PoolClaim(
        pool_id="id",
        pool="gpu",
        installation=Installation(cluster=cluster, namespace=namespace),
        holder="w-1",
        claimed_at=NOW - timedelta(days=1),
        renewed_at=NOW - timedelta(seconds=age_s),
        renewals=7,
    )


@pytest.mark.parametrize(
    ("claim", "want"),
    [
        pytest.param(
            a_claim(),
            ("ok", "the installation in namespace ml of this cluster acts for pool 'gpu' since"),
            id="this one",
        ),
        pytest.param(
            a_claim(namespace="b"),
            ("warning", "the installation in namespace b of this cluster acts for pool 'gpu'"),
            id="another namespace",
        ),
        pytest.param(
            a_claim(cluster="c2"),
            ("warning", "the installation in namespace ml of cluster c2 (the uid of its"),
            id="another cluster",
        ),
        pytest.param(
            a_claim(age_s=181),
            (
                "warning",
                "renewed 181 s ago. Another installation may take over 180s after the last renewal",
            ),
            id="not renewed",
        ),
    ],
)
def test_the_installation_that_acts(claim: PoolClaim, want: tuple[str, str]) -> None:
    check([installation_finding(claim, NOW, cluster="c1", namespace="ml")], [want])


@pytest.mark.parametrize(
    ("in_prefect", "want"),
    [
        pytest.param(a_claim(), None, id="one ledger"),
        pytest.param(a_claim(namespace="b", age_s=181), None, id="the other is not renewed"),
        pytest.param(
            a_claim(namespace="b"),
            "acts for pool 'gpu' since 2026-11-22 12:00 UTC, using a different ledger",
            id="two ledgers",
        ),
    ],
)
def test_two_installations_with_different_ledgers_are_an_error(in_prefect, want) -> None:
    found = ledgers_finding(a_claim(), in_prefect, NOW, cluster="c1")
    if want is None:
        assert found is None
    else:
        check([found], [("failed", want)])


def test_two_leases_of_which_one_counts_are_a_warning() -> None:
    leases = [a_lease(), a_lease(namespace="b", holder="w-2")]
    claim = a_claim()
    found = lease_findings("gpu", "gpu-pool-gpu", leases, NOW, looked_in=None, claim=claim)
    want = (
        "2 installations of pool 'gpu' hold a lease: w-1 in ml and w-2 in b. The installation in ml"
    )
    check(found, [("warning", want)])


def test_a_lease_does_not_say_that_its_installation_acts() -> None:
    claim = a_claim(cluster="c2")
    found = lease_findings(
        "gpu", "gpu-pool-gpu", [a_lease()], NOW, looked_in=None, claim=claim, cluster="c1"
    )
    check(found, [("ok", "w-1 holds the lease and is on standby, renewed 2 s ago, in ml")])


# -- nodes -------------------------------------------------------------------------------------


SHARED_BY_10 = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED",
    "nvidia.com/gpu.replicas": "10",
}


HOT = HeldGpu(
    gpu_id="GPU-a",
    verdict=HealthVerdict.DRAIN,
    reason="90 °C",
    remedy="check its cooling",
    found_at=None,
)


def a_node(
    name: str = "n1",
    *,
    is_admitted: bool = True,
    held: tuple[HeldGpu, ...] = (),
    **fields: Any,
) -> SeenNode:
    """A node with 8 A100, as the worker reads it."""
    status = {
        "capacity": {"nvidia.com/gpu": fields.pop("capacity", "8")},
        "allocatable": {"nvidia.com/gpu": fields.pop("allocatable", "8")},
        "conditions": [{"type": "Ready", "status": fields.pop("ready", "True")}],
    }
    labels = fields.pop("labels", {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"})
    policy = KubernetesPolicy.model_validate(fields.pop("policy", {}))
    node = {
        "metadata": {"name": name, "labels": labels},
        "spec": fields,
        "status": status,
    }
    facts = node_facts(node, (), policy, pool="gpu")
    facts = replace(facts, node=without_held(facts.node, held))
    return SeenNode(name=name, facts=facts, is_admitted=is_admitted, held=held)


@pytest.mark.parametrize(
    ("nodes", "want"),
    [
        pytest.param([a_node()], [("ok", "8 GPUs on 1 node: a100-80gb 8")], id="one"),
        pytest.param(
            [a_node(), SeenNode(name="cpu", facts=None)],
            [("ok", "8 GPUs on 1 node: a100-80gb 8 (1 node without GPUs)")],
            id="one without GPUs",
        ),
        pytest.param([], [("failed", "No usable GPUs found")], id="none"),
        pytest.param(
            [a_node(unschedulable=True)],
            [("failed", "No usable GPU"), ("warning", "node n1, 8 GPUs: it is cordoned")],
            id="cordoned",
        ),
        pytest.param(
            [a_node(ready="False")],
            [("failed", "No usable GPU"), ("warning", "n1, 8 GPUs: it is not ready")],
            id="not ready",
        ),
        pytest.param(
            [a_node(is_admitted=False)],
            [("failed", ""), ("warning", "excluded by the base job template of the pool")],
            id="kept off by the template",
        ),
        pytest.param(
            [a_node(labels={})],
            [("ok", ""), ("warning", "does not have a GPU type label. Please install GPU")],
            id="no labels",
        ),
        pytest.param(
            [a_node(allocatable="6")],
            [("ok", "6 GPUs"), ("warning", "2 GPUs of 8 reported as unhealthy by the device")],
            id="broken GPUs",
        ),
        pytest.param(
            [a_node(held=(HOT,)), a_node("n2")],
            [
                ("ok", "8 GPUs on 1 node"),
                (
                    "warning",
                    "node n1: GPU-a is held: 90 °C. 7 other GPUs may remain idle until it is ",
                ),
            ],
            id="a GPU that is held and may still be given to a pod",
        ),
        pytest.param(
            [a_node(held=(HOT,), allocatable="7")],
            [
                ("ok", "7 GPUs on 1 node"),
                ("warning", "GPU-a is held: 90 °C. Check its cooling, then `kubectl annotate "),
            ],
            id="a GPU that is held and withdrawn",
        ),
        pytest.param(
            [a_node(labels=SHARED_BY_10, capacity="80", allocatable="80")],
            [("ok", "8 GPUs on 1 node")],
            id="shared as its labels say",
        ),
        pytest.param(
            [
                a_node(
                    labels=SHARED_BY_10,
                    capacity="80",
                    allocatable="80",
                    policy={"shared_gpu_resource": "nvidia.com/gpu", "shares_per_gpu": 4},
                )
            ],
            [
                ("ok", "8 GPUs on 1 node"),
                ("warning", "has 10 replicas, but the policy's kubernetes.shares_per_gpu is 4"),
            ],
            id="shared otherwise than the policy says",
        ),
        pytest.param(
            [SeenNode(name="odd", facts=None, error="capacity.cpu is no quantity")],
            [("failed", ""), ("warning", "Failed to read node odd: capacity.cpu")],
            id="one that cannot be read",
        ),
    ],
)
def test_nodes(nodes: list[SeenNode], want: Want) -> None:
    check(node_findings(nodes, may_add=False), want)


def test_no_node_is_needed_where_a_provisioner_adds_them() -> None:
    check(node_findings([], may_add=True), [("ok", "Nodes can be added by the provisioner")])


def test_a_thousand_cordoned_nodes_are_not_a_thousand_lines() -> None:
    nodes = [a_node(f"n{i}", unschedulable=True) for i in range(1000)]
    found = list(node_findings(nodes, may_add=False))
    assert len(found) == 22
    assert found[-1].message == "980 more nodes excluded from scheduling"


KIND = ProvisionedNodes(name="k", gpu_type="a10g", gpus_per_node=4, max_nodes=10)


@pytest.mark.parametrize(
    ("provisioner", "offers", "want"),
    [
        pytest.param(Provisioner.FIXED, None, [], id="neither"),
        pytest.param(
            Provisioner.KARPENTER,
            None,
            [("failed", "no NodePool resources are available")],
            id="no Karpenter",
        ),
        pytest.param(
            Provisioner.FIXED,
            {"a": NodePoolOffer(kinds=(KIND,))},
            [
                (
                    "warning",
                    "1 NodePool found but not used, because the provisioner in the policy is fixed",
                )
            ],
            id="not wanted",
        ),
        pytest.param(
            Provisioner.KARPENTER, {}, [("warning", "No NodePools found")], id="no NodePool"
        ),
        pytest.param(
            Provisioner.KARPENTER,
            {
                "b": NodePoolOffer(refusals=("it is being deleted",)),
                "a": NodePoolOffer(kinds=(KIND,)),
            },
            [
                ("ok", "a: up to 10 x 4 a10g"),
                ("warning", "b cannot add nodes: it is being deleted"),
            ],
            id="two",
        ),
    ],
)
def test_node_pools(
    provisioner: Provisioner, offers: dict[str, NodePoolOffer] | None, want: Want
) -> None:
    check(node_pool_findings(provisioner, offers), want)


# -- clocks ------------------------------------------------------------------------------------


def a_reading(skew_s: float, error_s: float = 0.5) -> ClockReading:
    """A clock that is so far ahead."""
    return ClockReading(
        name="db", theirs=NOW + timedelta(seconds=skew_s), ours=NOW, error_s=error_s
    )


@pytest.mark.parametrize(
    ("reading", "want"),
    [
        pytest.param(a_reading(0.3), ("ok", "differ by less than 0.5 s"), id="the same"),
        pytest.param(a_reading(0, 0.003), ("ok", "differ by less than 0.1 s"), id="a fast answer"),
        pytest.param(a_reading(-1.5), ("ok", "differ by 1.5 s"), id="a little"),
        pytest.param(a_reading(3), ("warning", "is 3.0 s ahead of this"), id="ahead"),
        pytest.param(a_reading(-40), ("failed", "is 40.0 s behind this"), id="behind"),
        pytest.param(a_reading(40, 12), ("warning", "40.0 s ahead"), id="a slow answer"),
        pytest.param(a_reading(5, 4), ("ok", "differ by 5.0 s"), id="a very slow answer"),
        pytest.param(
            ClockReading(name="db", theirs=None, ours=NOW, error_s=0),
            ("unknown", "db did not report its current time"),
            id="no time",
        ),
    ],
)
def test_clocks(reading: ClockReading, want: tuple[str, str]) -> None:
    check(clock_findings([reading]), [want])


@given(skew_s=st.floats(-1e6, 1e6), error_s=st.floats(0, 100))
def test_a_clock_is_never_blamed_within_the_error_of_the_reading(
    skew_s: float, error_s: float
) -> None:
    (found,) = clock_findings([a_reading(skew_s, error_s)])
    sure_s = abs(skew_s) - error_s
    if sure_s <= WARNING_S - 1e-5:
        assert found.status is Status.OK
    if found.status is Status.FAILED:
        assert sure_s > FAILURE_S - 1e-5


# -- stores ------------------------------------------------------------------------------------


def probe(**fields: Any) -> StoreProbe:
    """A store that needs 64 MiB for a first save, with these fields."""
    return StoreProbe(first_save_bytes=64 << 20, **fields)


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(
            probe(uri="/c", took_s=0.2, free_bytes=10**12), ("ok", "931.3 GiB free"), id="good"
        ),
        pytest.param(probe(uri="s3://b", took_s=0.2), ("ok", "0.20 s"), id="no bound"),
        pytest.param(
            probe(uri="/c", free_bytes=10),
            ("failed", "the first checkpoint requires 64.0 MiB"),
            id="full",
        ),
        pytest.param(probe(uri="/c", is_there=False), ("ok", "does not exist yet"), id="to come"),
    ],
)
def test_stores(found: StoreProbe, want: tuple[str, str]) -> None:
    check([store_finding(found)], [want])


def a_ledger(**fields: Any) -> LedgerProbe:
    """A ledger of this version, with these fields."""
    values: dict[str, Any] = {
        "address": "postgresql://db/ledger",
        "version": "0004",
        "newest": "0004",
        "is_known": True,
        "latency_s": 0.003,
    }
    return LedgerProbe(**(values | fields))


@pytest.mark.parametrize(
    ("probe", "want"),
    [
        pytest.param(
            a_ledger(), [("ok", "schema version 0004 (latest)"), ("ok", "3ms")], id="good"
        ),
        pytest.param(
            a_ledger(version="0003"),
            [("warning", "0003 is older than 0004. To upgrade the schema"), ("ok", "")],
            id="behind",
        ),
        pytest.param(
            a_ledger(version="0009", is_known=False),
            [("failed", "0009 is newer than 0004. Please upgrade"), ("ok", "")],
            id="ahead",
        ),
        pytest.param(a_ledger(version=None), [("unknown", "has not been initialized")], id="empty"),
        pytest.param(
            a_ledger(latency_s=1.2), [("ok", ""), ("warning", "latency: 1,200ms")], id="slow"
        ),
    ],
)
def test_ledgers(probe: LedgerProbe, want: Want) -> None:
    check(ledger_findings(probe), want)


@pytest.mark.parametrize(
    ("status", "has_credentials", "want"),
    [
        pytest.param(200, True, ("ok", "with the credentials"), id="good"),
        pytest.param(200, False, ("ok", "with no credentials"), id="open to all"),
        pytest.param(
            401, True, ("failed", "rejected a request with the credentials (HTTP"), id="401"
        ),
        pytest.param(403, False, ("failed", "rejected a request with no credentials"), id="403"),
        pytest.param(404, False, ("failed", "may not be an MLflow server"), id="another server"),
    ],
)
def test_mlflow(status: int, has_credentials: bool, want: tuple[str, str]) -> None:
    probe = MlflowProbe(
        address="http://m", status=status, has_credentials=has_credentials, took_s=0.1
    )
    check([mlflow_finding(probe)], [want])


GPU = SeenGpu(name="NVIDIA L4", uuid="GPU-1", memory_bytes=24 * 10**9, is_mig=False)


@pytest.mark.parametrize(
    ("gpus", "virtual", "want"),
    [
        pytest.param((GPU, GPU), 0, [("ok", "2 GPUs, used by 3 now")], id="two"),
        pytest.param((), 0, [("failed", "No NVIDIA GPUs found")], id="none"),
        pytest.param((), 8, [("ok", "8 virtual GPUs defined in the policy")], id="virtual ones"),
        pytest.param((GPU,), 8, [("ok", "1 physical GPU not used")], id="both"),
        pytest.param(
            (replace(GPU, is_mig=True),),
            0,
            [("ok", ""), ("warning", "1 GPU in MIG mode")],
            id="MIG",
        ),
    ],
)
def test_machines(gpus: tuple[SeenGpu, ...], virtual: int, want: Want) -> None:
    check(machine_findings(gpus, virtual, 3), want)


def test_only_what_failed_is_an_exit_code() -> None:
    found = list(machine_findings((replace(GPU, is_mig=True),), 0, 0))
    assert not has_failed(found)
    assert has_failed([*found, *machine_findings((), 0, 0)])
