"""The worker as the Helm chart installs it: what it allows is enough for all that it does."""

import json
import socket

import pytest

from tests.cluster.installed_worker import installed_worker
from tests.cluster.pools import FLOWS, POLICY
from tests.support.prefect_stack import wait_for

PREPARED = (
    POLICY
    + """
  priority_classes: true
  preflight: {image: "busybox:1", command: "true"}
  prepull: ["busybox:1"]
"""
)
# Its second attempt ends at once.
UNTIL_SIGTERM = (
    """/bin/sh -c '[ $PREFECT_GPU_ATTEMPT = 2 ] || { trap "exit 1" TERM; sleep 300 & wait; }'"""
)
LASTING = """/bin/sh -c 'trap "exit 1" TERM; sleep 3000 & wait'"""
PREFLIGHT = "prefect-gpu.dev/preflight"
# What this story does not come to: gangs and operators.
UNTRIED = [
    ("create", "", "services"),
    ("get", "", "services"),
    ("create", "ray.io", "rayjobs"),
    ("delete", "trainer.kubeflow.org", "trainjobs"),
    ("watch", "sparkoperator.k8s.io", "sparkapplications"),
]


def may(release, namespace, verb, group, resource):
    """Is the worker's account allowed this in this namespace?"""
    asked = {"verb": verb, "group": group, "resource": resource, "namespace": namespace}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": release.account, "resourceAttributes": asked},
    }
    return release.cluster.create(review)["status"]["allowed"]


def annotations(cluster, node):
    """What we noted on this node."""
    return cluster.get("node", node)["metadata"]["annotations"]


def free_port():
    """A port of this machine that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.timeout(600)
def test_what_the_chart_installs_is_enough_and_is_upgraded_while_runs_run(new_pool, namespace):
    pool, cluster = new_pool(PREPARED), namespace.cluster
    (node,) = cluster.nodes()
    low, urgent = (pool.deploy(f"{FLOWS}:do_nothing", queue=name) for name in ("low", "critical"))
    kept = f"{namespace.name}-kept"
    places = [{"name": namespace.name}, {"name": kept, "create": True}]
    with installed_worker(
        namespace, pool,
        runs={"namespaces": places}, nodeAnnotations={"enabled": True},
        frameworks={"ray": True, "kubeflow": True, "spark": True},
    ) as release:  # fmt: skip
        # The node is tested and the image pulled before any run gets there.
        victim = pool.submit(low, "victim", container_command=UNTIL_SIGTERM, gpu_count=8)
        pool.wait_until(victim, "Running", timeout_s=240)
        assert json.loads(annotations(cluster, node)[PREFLIGHT])["passed"]
        wait_for(lambda: "prefect-gpu.dev/prepull" in annotations(cluster, node), "it is pulled")
        wait_for(lambda: "stands by" in release.log(), "one acts, the other stands by")

        # Preemption: the pod gets its notice, and the Job is deleted.
        hello = pool.submit(urgent, "hello", container_command="echo hello")
        pool.wait_until(hello, "Completed", timeout_s=120)
        pool.wait_until(victim, "Completed", timeout_s=120)
        wait_for(lambda: "hello" in pool.logs(hello), "its output is in its log")
        assert pool.attempts(victim)[0].end_reason == "Preempted"

        # Where it has no rights it does not try again and again.
        elsewhere = pool.submit(urgent, "elsewhere", namespace="default", container_command="true")
        pool.wait_until(elsewhere, "Crashed", timeout_s=60)
        told = "does not let the worker create jobs.batch in namespace 'default'"
        assert told in pool.message(elsewhere)
        wait_for(lambda: pool.attempts(elsewhere)[-1].released_at, "its attempt is settled")
        assert [end.end_reason for end in pool.attempts(elsewhere)] == ["Refused"]

        assert [right for right in UNTRIED if not may(release, namespace.name, *right)] == []
        assert not may(release, namespace.name, "delete", "", "nodes")
        # Its own namespace is none of those where it makes things.
        assert not may(release, release.namespace, "create", "batch", "jobs")
        assert not may(release, release.namespace, "create", "coordination.k8s.io", "leases")
        assert not may(release, namespace.name, "get", "", "secrets")

        assert [line for line in release.log().splitlines() if "orbidden" in line] == []
        assert "Traceback" not in release.log()
        assert release.restarts() == 0

        # New workers take over what runs, with probes that ask their health server.
        lasting = pool.submit(low, "lasting", container_command=LASTING, gpu_count=4)
        pool.wait_until(lasting, "Running", timeout_s=60)
        (pod,) = running_pods(namespace)
        release.upgrade(
            replicas=1,
            probes={"enabled": True, "port": free_port()},
            frameworks={"kubeflow": True, "spark": True},
        )
        assert release.restarts() == 0
        after = pool.submit(urgent, "after the upgrade", container_command="true")
        pool.wait_until(after, "Completed", timeout_s=120)
        assert not may(release, namespace.name, "create", "ray.io", "rayjobs")

        # The run did not notice any of it.
        assert running_pods(namespace) == [pod]
        assert len(pool.attempts(lasting)) == 1
        assert pool.state(lasting) == "Running"
        cluster.kubectl("delete", "namespace", kept, "--wait=false")


def running_pods(namespace):
    """The uids of the pods that run in this namespace."""
    pods = namespace.get("pods", "--field-selector=status.phase=Running")["items"]
    return [pod["metadata"]["uid"] for pod in pods]
