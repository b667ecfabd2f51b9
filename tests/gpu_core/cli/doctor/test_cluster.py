"""What `doctor` says of a cluster, from an API server on the loopback interface."""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.inspection import inspect_claim
from gpu_core.cli.doctor import cluster as cluster_checks
from gpu_core.cli.doctor.cluster import ClusterQuestion, examine_cluster
from gpu_core.decisions.checks.doctor.finding import Finding
from gpu_core.decisions.checks.prefect.pool_claim import Installation, PoolClaim
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy

NODE = {
    "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}},
    "spec": {},
    "status": {
        "capacity": {"nvidia.com/gpu": "8"},
        "allocatable": {"nvidia.com/gpu": "8"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
FOREIGN_NODE_POOL = {
    "metadata": {"name": "azure"},
    "spec": {"template": {"spec": {"nodeClassRef": {"group": "karpenter.azure.com"}}}},
}
REVIEWS = "/apis/authorization.k8s.io/v1/"


def a_lease(namespace: str = "ml", name: str = "gpu-pool-gpu", age_s: float = 2) -> dict[str, Any]:
    """A lease that was renewed so long ago."""
    renewed = datetime.now(UTC) - timedelta(seconds=age_s)
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "holderIdentity": f"worker-{namespace}",
            # Longer than a busy machine takes from here to the answer.
            "leaseDurationSeconds": 1800,
            "renewTime": f"{renewed:%Y-%m-%dT%H:%M:%S.%fZ}",
        },
    }


class FakeCluster:
    """Answers lists by path. What is not there is 404; what is a number is that status."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Any] | int] = {
            "/api/v1/nodes": [NODE],
            "/api/v1/pods": [],
            "/apis/coordination.k8s.io/v1/leases": [a_lease()],
        }
        self.objects: dict[str, Any] = {
            "/version": {"gitVersion": "v1.34.1"},
            "/apis": {"groups": [{"name": "batch"}, {"name": "ray.io"}]},
        }
        self.refused: Callable[[Mapping[str, str]], bool] = lambda _: False
        self.skew_s = 0.0
        self.silent: set[str] = set()
        self.asked: list[Mapping[str, Any]] = []
        self.changed: list[str] = []

    async def handle(self, request: web.Request) -> web.Response:
        if request.path in self.silent:
            await asyncio.Event().wait()
        now = datetime.now(UTC) + timedelta(seconds=self.skew_s)
        status, body = await self._answer(request)
        headers = {"Date": format_datetime(now, usegmt=True)}
        return web.json_response(body, status=status, headers=headers)

    async def _answer(self, request: web.Request) -> tuple[int, Any]:
        if request.method == "POST" and request.path.startswith(REVIEWS):
            spec = (await request.json())["spec"]
            self.asked.append(spec)
            return 201, {"status": {"allowed": not self.refused(spec["resourceAttributes"])}}
        if request.method == "POST" and request.path.endswith("selfsubjectreviews"):
            name = "system:serviceaccount:ml:gpu-worker"
            return 201, {"status": {"userInfo": {"username": name}}}
        if request.method != "GET":
            self.changed.append(f"{request.method} {request.path}")
            return 500, {}
        found = self.lists.get(request.path)
        if isinstance(found, int):
            return found, {"reason": "Forbidden", "message": "no"}
        if found is not None:
            return 200, {"metadata": {"resourceVersion": "1"}, "items": found}
        if request.path in self.objects:
            return 200, self.objects[request.path]
        return 404, {"reason": "NotFound", "message": "not found"}


@pytest.fixture
def cluster() -> FakeCluster:
    """A cluster in which all is well."""
    return FakeCluster()


def examine(cluster: FakeCluster, policy: dict[str, Any] | None = None, **changes: Any) -> Any:
    """The findings of a look at this cluster; nothing of it is changed."""
    return asyncio.run(_examine(cluster, policy or {}, changes))


async def _examine(
    cluster: FakeCluster, policy: dict[str, Any], changes: dict[str, Any]
) -> list[Finding]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", cluster.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]
    values: dict[str, Any] = {
        "pool": "gpu",
        "policy": KubernetesPolicy.model_validate(policy),
        "template": {},
        "namespaces": ("ml",),
        "lease_namespace": None,
        "service_account": None,
        "cluster_config": (kubeconfig(f"http://127.0.0.1:{port}"), None),
    }
    try:
        found = await examine_cluster(ClusterQuestion(**(values | changes)))
    finally:
        await runner.cleanup()
    assert cluster.changed == []
    return found


def kubeconfig(address: str) -> dict[str, Any]:
    """A kubeconfig for this API server."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


def statuses(found: list[Finding]) -> dict[str, str]:
    """The last status of each check."""
    return {finding.check: finding.status.value for finding in found}


def text_of(found: list[Finding], check: str) -> str:
    """All that a check says."""
    return "\n".join(f"{f.status.value} {f.message}" for f in found if f.check == check)


def test_a_cluster_in_which_all_is_well(cluster: FakeCluster) -> None:
    found = examine(cluster)
    assert set(statuses(found).values()) == {"ok"}
    assert "worker-ml acts" in text_of(found, "lease.holder")
    assert "8 GPUs on 1 node: a100-80gb 8" in text_of(found, "nodes.gpus")
    assert "system:serviceaccount:ml:gpu-worker has" in text_of(found, "rights.granted")


def test_rights_are_asked_for_where_they_are_needed(cluster: FakeCluster) -> None:
    """Runs' rights in each namespace; the frameworks' whose operator is there alone."""
    examine(cluster, namespaces=("ml", "vision"), lease_namespace="gpu")
    asked = {
        (a["verb"], a["resource"], a["subresource"], a["namespace"])
        for a in (spec["resourceAttributes"] for spec in cluster.asked)
    }
    assert ("create", "jobs", "", "ml") in asked
    assert ("create", "jobs", "", "vision") in asked
    assert ("get", "pods", "log", "vision") in asked
    assert ("list", "nodes", "", "") in asked
    assert {place for _, resource, _, place in asked if resource == "leases"} == {"gpu"}
    assert any(resource == "rayjobs" for _, resource, _, _ in asked)
    assert not any(resource in ("trainjobs", "nodepools") for _, resource, _, _ in asked)


def test_a_missing_right_is_named_with_what_it_is_for(cluster: FakeCluster) -> None:
    cluster.refused = lambda asked: (asked["verb"], asked["resource"]) == ("create", "jobs")
    found = examine(cluster)
    want = "may not create jobs.batch in namespace ml: needed for the start of runs"
    assert want in text_of(found, "rights.missing")
    assert statuses(found)["rights.missing"] == "failed"


def test_the_rights_of_another_are_asked_for_by_its_name(cluster: FakeCluster) -> None:
    cluster.objects["/api/v1/namespaces/gpu/serviceaccounts/worker"] = {}
    found = examine(cluster, service_account="gpu/worker")
    assert {spec["user"] for spec in cluster.asked} == {"system:serviceaccount:gpu:worker"}
    assert cluster.asked[0]["groups"][1] == "system:serviceaccounts:gpu"
    assert "system:serviceaccount:gpu:worker has" in text_of(found, "rights.granted")


def test_an_account_that_is_not_there_lacks_no_rights(cluster: FakeCluster) -> None:
    cluster.refused = lambda _: True
    found = examine(cluster, service_account="gpu/workr")
    assert text_of(found, "rights.worker") == (
        "failed ServiceAccount workr not found in namespace gpu"
    )
    assert "rights.missing" not in statuses(found)


def test_a_worker_pod_without_its_secret_is_named(cluster: FakeCluster) -> None:
    waiting = {"reason": "CreateContainerConfigError", "message": 'secret "s" not found'}
    pod = {
        "metadata": {"namespace": "gpu", "name": "w"},
        "spec": {"containers": [{"args": ["worker", "start", "gpu", "gpu-kubernetes"]}]},
        "status": {"containerStatuses": [{"state": {"waiting": waiting}}]},
    }
    cluster.lists["/api/v1/pods"] = [pod]
    assert (
        'failed gpu/w is not running: CreateContainerConfigError: secret "s" not found'
        in text_of(examine(cluster), "worker.pods")
    )


@pytest.mark.parametrize(
    ("leases", "want"),
    [
        pytest.param([a_lease(age_s=3600)], "failed worker-ml has not renewed", id="stale"),
        pytest.param(
            [a_lease(), a_lease("other")], "failed 2 workers are active", id="two holders"
        ),
        pytest.param(
            [a_lease(name="gpu-pool-gpu-2")],
            "unknown Lease gpu-pool-gpu not found",
            id="another pool's",
        ),
        pytest.param([], "unknown Lease gpu-pool-gpu not found in any namespace", id="none"),
    ],
)
def test_leases(cluster: FakeCluster, leases: list[Any], want: str) -> None:
    cluster.lists["/apis/coordination.k8s.io/v1/leases"] = leases
    assert want in text_of(examine(cluster), "lease.holder")


def test_the_second_installation_of_a_pool_is_shown_which_one_acts(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    url, now = f"sqlite:///{tmp_path}/ledger.db", datetime.now(UTC)
    acting = Installation(cluster="uid-1", namespace="ml")
    with Ledger.open(url) as ledger:
        ledger.claim_pool(
            PoolClaim(
                pool_id="id", pool="gpu", installation=acting, holder="worker-ml",
                claimed_at=now, renewed_at=now, renewals=0,
            )
        )  # fmt: skip
    cluster.lists["/apis/coordination.k8s.io/v1/leases"] = [a_lease(), a_lease("other")]
    cluster.objects["/api/v1/namespaces/kube-system"] = {"metadata": {"uid": "uid-1"}}
    reader = partial(inspect_claim, url, "id")
    found = examine(cluster, lease_namespace="other", read_claim=reader)
    assert "warning 2 installations of pool 'gpu'" in text_of(found, "lease.holder")
    text = text_of(found, "lease.installation")
    assert "warning the installation in namespace ml of this cluster acts for pool 'gpu'" in text
    (remedy,) = (each.remedy for each in found if each.check == "lease.installation")
    assert remedy.startswith("uninstall one of the two, or give one a pool of its own")
    found = examine(cluster, lease_namespace="ml", read_claim=reader)
    assert text_of(found, "lease.installation").startswith("ok ")
    del cluster.objects["/api/v1/namespaces/kube-system"]
    found = examine(cluster, lease_namespace="ml", read_claim=reader)
    assert "of cluster uid-1" in text_of(found, "lease.installation")


@pytest.mark.parametrize(
    "make", [pytest.param(False, id="no database"), pytest.param(True, id="an older version's")]
)
def test_a_ledger_without_claims_says_nothing_of_installations(
    cluster: FakeCluster, tmp_path: Path, make: bool
) -> None:
    if make:
        sqlite3.connect(tmp_path / "ledger.db").close()
        (tmp_path / "ledger.db").touch()
    reader = partial(inspect_claim, f"sqlite:///{tmp_path}/ledger.db", "id")
    assert "lease.installation" not in statuses(examine(cluster, read_claim=reader))


def test_without_the_right_to_list_leases_the_known_namespaces_are_looked_in(
    cluster: FakeCluster,
) -> None:
    cluster.lists["/apis/coordination.k8s.io/v1/leases"] = 403
    path = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/gpu-pool-gpu"
    cluster.objects[path.format("ml")] = a_lease()
    assert "ok worker-ml acts" in text_of(examine(cluster), "lease.holder")
    del cluster.objects[path.format("ml")]
    assert "in the namespaces ml, default" in text_of(examine(cluster), "lease.holder")


def test_the_worker_that_may_read_its_own_lease_alone_sees_that_all_is_well(
    cluster: FakeCluster,
) -> None:
    """As the chart grants it: by its name, in the release's namespace, where no runs are."""
    lease = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/gpu-pool-gpu"
    cluster.lists["/apis/coordination.k8s.io/v1/leases"] = 403
    cluster.lists |= {lease.format(place): 403 for place in ("ml", "default")}
    cluster.lists["/apis/karpenter.sh/v1/nodepools"] = 403
    cluster.objects[lease.format("gpu")] = a_lease("gpu")
    cluster.refused = lambda asked: (asked["resource"], asked["name"]) == ("leases", "")
    found = examine(cluster, lease_namespace="gpu")
    assert set(statuses(found).values()) == {"ok"}
    assert "worker-gpu acts" in text_of(found, "lease.holder")

    del cluster.objects[lease.format("gpu")]
    found = examine(cluster, lease_namespace="gpu")
    assert "unknown Lease gpu-pool-gpu not found in the namespaces gpu." in text_of(
        found, "lease.holder"
    )

    cluster.lists[lease.format("gpu")] = 403
    found = examine(cluster, lease_namespace="gpu")
    assert "unknown cannot be read: no (Forbidden)" in text_of(found, "lease.holder")


def test_a_foreign_node_pool_says_why_it_is_not_used(cluster: FakeCluster) -> None:
    cluster.lists["/apis/karpenter.sh/v1/nodepools"] = [FOREIGN_NODE_POOL]
    said = text_of(examine(cluster, {"provisioner": "karpenter"}), "node-pools.offer")
    assert (
        "warning NodePool azure cannot add nodes: its nodeClassRef.group is 'karpenter.azure.com'"
        in said
    )


def test_node_pools_that_may_not_be_read_hide_no_node(cluster: FakeCluster) -> None:
    cluster.lists["/apis/karpenter.sh/v1/nodepools"] = 403
    found = examine(cluster, {"provisioner": "karpenter"})
    assert statuses(found)["node-pools.karpenter"] == "unknown"
    assert "8 GPUs" in text_of(found, "nodes.gpus")


def test_gpus_of_other_peoples_pods_do_not_count(cluster: FakeCluster) -> None:
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "3"}}}
    pod = {
        "metadata": {"name": "p", "namespace": "x"},
        "spec": {"nodeName": "n1", "containers": [container]},
    }
    ended = {**pod, "status": {"phase": "Succeeded"}}
    cluster.lists["/api/v1/pods"] = [{**pod, "status": {"phase": "Running"}}, ended]
    assert "5 GPUs on 1 node" in text_of(examine(cluster), "nodes.gpus")


@pytest.mark.parametrize(
    ("skew_s", "want"),
    [
        pytest.param(0, "ok", id="the same"),
        pytest.param(-8, "warning", id="behind"),
        pytest.param(90, "failed", id="ahead"),
    ],
)
def test_clocks(cluster: FakeCluster, skew_s: float, want: str) -> None:
    cluster.skew_s = skew_s
    cluster.lists["/apis/coordination.k8s.io/v1/leases"] = [a_lease(age_s=-skew_s)]
    found = statuses(examine(cluster))
    assert (found["clocks.skew"], found["lease.holder"]) == (want, "ok")


def test_an_older_cluster_than_the_policy_says(cluster: FakeCluster) -> None:
    cluster.objects["/version"] = {"gitVersion": "v1.24.3"}
    assert (
        "failed The policy specifies Kubernetes 1.34, but the cluster is running v1.24.3"
        in text_of(examine(cluster), "versions.kubernetes")
    )


def test_what_is_silent_hides_nothing_else(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_checks, "_PART_S", 1.0)
    cluster.silent = {"/api/v1/nodes"}
    found = examine(cluster)
    assert text_of(found, "nodes.gpus") == "unknown timed out after 1s"
    assert statuses(found)["lease.holder"] == "ok"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({}, id="no version"),
        pytest.param([], id="a list"),
        pytest.param(None, id="nothing"),
    ],
)
def test_what_is_no_api_server_is_said(cluster: FakeCluster, answer: Any) -> None:
    cluster.objects["/version"] = answer
    (found,) = examine(cluster)
    assert (found.check, found.status.value) == ("kubernetes.api", "failed")


def test_no_cluster_is_said() -> None:
    question = ClusterQuestion(
        pool="gpu",
        policy=KubernetesPolicy(),
        template={},
        namespaces=("ml",),
        lease_namespace=None,
        service_account=None,
        cluster_config=(kubeconfig("http://127.0.0.1:9"), None),
    )
    (found,) = asyncio.run(examine_cluster(question))
    assert found.status.value == "failed"
    assert "Unable to connect to the cluster" in found.message
