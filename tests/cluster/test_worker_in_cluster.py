"""The worker as the manifests install it: what they allow is enough for all that it does."""

import json

import pytest

from tests.cluster.installed_worker import installed_worker, restarts, worker_log
from tests.cluster.pools import FLOWS, POLICY
from tests.support.prefect_stack import wait_for

PREPARED = (
    POLICY
    + """
  preflight: {image: "busybox:1", command: "true"}
  prepull: ["busybox:1"]
"""
)
# Its second attempt ends at once.
UNTIL_SIGTERM = (
    """/bin/sh -c '[ $PREFECT_GPU_ATTEMPT = 2 ] || { trap "exit 1" TERM; sleep 300 & wait; }'"""
)
PREFLIGHT = "prefect-gpu.dev/preflight"
# What this story does not come to: gangs, operators, Karpenter.
UNTRIED = [
    ("create", "", "services"),
    ("get", "", "services"),
    ("create", "ray.io", "rayjobs"),
    ("delete", "trainer.kubeflow.org", "trainjobs"),
    ("watch", "sparkoperator.k8s.io", "sparkapplications"),
    ("list", "karpenter.sh", "nodepools"),
]


def may(namespace, verb, group, resource):
    """Is the worker's account allowed this in its namespace?"""
    asked = {"verb": verb, "group": group, "resource": resource, "namespace": namespace.name}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{namespace.name}:gpu-worker",
            "resourceAttributes": asked,
        },
    }
    return namespace.cluster.create(review)["status"]["allowed"]


def annotations(cluster, node):
    """What we noted on this node."""
    return cluster.get("node", node)["metadata"]["annotations"]


@pytest.mark.timeout(600)
def test_the_rights_of_the_manifests_are_all_that_the_worker_needs(new_pool, namespace):
    pool, cluster = new_pool(PREPARED), namespace.cluster
    (node,) = cluster.nodes()
    low, urgent = (pool.deploy(f"{FLOWS}:do_nothing", queue=name) for name in ("low", "critical"))
    with installed_worker(namespace, pool):
        # The node is tested and the image pulled before any run gets there.
        victim = pool.submit(low, "victim", container_command=UNTIL_SIGTERM, gpu_count=8)
        pool.wait_until(victim, "Running", timeout_s=240)
        assert json.loads(annotations(cluster, node)[PREFLIGHT])["passed"]
        wait_for(lambda: "prefect-gpu.dev/prepull" in annotations(cluster, node), "it is pulled")
        wait_for(lambda: "stands by" in worker_log(namespace), "one acts, the other stands by")

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

        assert [right for right in UNTRIED if not may(namespace, *right)] == []
        assert not may(namespace, "delete", "", "nodes")

        assert [line for line in worker_log(namespace).splitlines() if "orbidden" in line] == []
        assert "Traceback" not in worker_log(namespace)
        assert restarts(namespace) == 0
