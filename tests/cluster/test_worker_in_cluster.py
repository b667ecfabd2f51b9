"""The worker as the Helm chart installs it: what it allows is enough for all that it does."""

import json
import re
import socket
from dataclasses import dataclass

import pytest
import yaml

from tests.cluster.installed_worker import Release, installed_worker
from tests.cluster.pools import FLOWS, POLICY
from tests.support.cluster import Namespace
from tests.support.helm import HelmFailed
from tests.support.prefect_stack import Pool
from tests.support.waiting import wait_for

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
    """A port of this machine that is free."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@dataclass(frozen=True)
class Story:
    """A release of the chart, the pool that it serves, and two deployments of it."""

    release: Release
    pool: Pool
    runs: Namespace
    low: str
    urgent: str

    def completes(self, name):
        """An urgent run starts and ends: a worker acts."""
        run = self.pool.submit(self.urgent, name, container_command="true")
        self.pool.wait_until(run, "Completed", timeout_s=120)


@pytest.mark.timeout(2400)
def test_what_the_chart_installs_is_enough_acts_alone_and_is_upgraded_while_runs_run(
    new_pool, namespace
):
    pool, cluster = new_pool(PREPARED), namespace.cluster
    low, urgent = (pool.deploy(f"{FLOWS}:do_nothing", queue=name) for name in ("low", "critical"))
    kept = f"{namespace.name}-kept"
    places = [{"name": namespace.name}, {"name": kept, "create": True}]
    with installed_worker(
        namespace, pool,
        runs={"namespaces": places}, nodeAnnotations={"enabled": True},
        frameworks={"ray": True, "kubeflow": True, "spark": True},
    ) as release:  # fmt: skip
        story = Story(release, pool, namespace, low, urgent)
        nodes_are_prepared_and_runs_preempted(story)
        rights_are_enough_and_no_more(story)
        another_installation_does_not_act(story)

        lasting = pool.submit(low, "lasting", container_command=LASTING, gpu_count=4)
        pool.wait_until(lasting, "Running", timeout_s=60)
        (pod,) = running_pods(namespace)
        values_change(story)
        refused_upgrades_change_nothing(story)
        release.rollback()
        story.completes("after the rollback")
        assert may(release, namespace.name, "create", "ray.io", "rayjobs")

        # The run did not notice any of it.
        assert running_pods(namespace) == [pod]
        assert len(pool.attempts(lasting)) == 1
        assert pool.state(lasting) == "Running"

        # Nothing is left but what helm says, and runs that continue; pods end after helm.
        left = release.uninstall()
        wait_for(
            lambda: release.objects() == {f"Namespace/{kept}"}, f"it is gone: {release.objects()}"
        )
        assert kept in left
        assert running_pods(namespace) == [pod]
        cluster.kubectl("delete", "namespace", kept, "--wait=false")


def nodes_are_prepared_and_runs_preempted(story):
    """With the rights of the chart the worker tests a node, pulls images and ends a run's pod."""
    pool, release = story.pool, story.release
    (node,) = release.cluster.nodes()
    # The node is tested and the image pulled before any run gets there.
    victim = pool.submit(story.low, "victim", container_command=UNTIL_SIGTERM, gpu_count=8)
    pool.wait_until(victim, "Running", timeout_s=240)
    assert json.loads(annotations(release.cluster, node)[PREFLIGHT])["passed"]
    wait_for(
        lambda: "prefect-gpu.dev/prepull" in annotations(release.cluster, node), "it is pulled"
    )
    wait_for(lambda: "on standby" in release.log(), "one acts, the other is on standby")

    # Preemption: the pod gets its notice, and the Job is deleted.
    hello = pool.submit(story.urgent, "hello", container_command="echo hello")
    pool.wait_until(hello, "Completed", timeout_s=120)
    pool.wait_until(victim, "Completed", timeout_s=120)
    wait_for(lambda: "hello" in pool.logs(hello), "its output is in its log")
    assert pool.attempts(victim)[0].end_reason == "Preempted"


def rights_are_enough_and_no_more(story):
    """Where the worker has no rights it does not try again and again; nothing else is refused."""
    pool, release, runs = story.pool, story.release, story.runs.name
    elsewhere = pool.submit(
        story.urgent, "elsewhere", namespace="default", container_command="true"
    )
    pool.wait_until(elsewhere, "Crashed", timeout_s=60)
    reported = "The worker is not permitted to create jobs.batch in namespace 'default'"
    assert reported in pool.message(elsewhere)
    wait_for(lambda: pool.attempts(elsewhere)[-1].released_at, "its attempt is settled")
    assert [end.end_reason for end in pool.attempts(elsewhere)] == ["Refused"]

    assert [right for right in UNTRIED if not may(release, runs, *right)] == []
    assert not may(release, runs, "delete", "", "nodes")
    # Its own namespace is none of those where it makes things.
    assert not may(release, release.namespace, "create", "batch", "jobs")
    assert not may(release, release.namespace, "create", "coordination.k8s.io", "leases")
    assert not may(release, runs, "get", "", "secrets")

    assert [line for line in release.log().splitlines() if "orbidden" in line] == []
    assert "Traceback" not in release.log()
    assert release.restarts() == 0


def another_installation_does_not_act(story):
    """helm refuses a second release of the pool; a worker with a lease elsewhere stands by."""
    own = story.release.namespace
    with pytest.raises(HelmFailed, match=f"has the release gpu in namespace {own} already"):
        story.release.beside(story.runs.name).install()

    second = story.pool.start_worker()
    reported = f"the installation in namespace {own} of this cluster acts for pool "
    wait_for(lambda: reported in second.log.read_text(), "it says who acts", timeout_s=240)
    story.pool.stop_worker()
    assert "Scheduling" not in second.log.read_text()

    # With a ledger of its own it learns of the first from Prefect alone.
    own_ledger = f"sqlite:///{story.pool.folder}/another.db"
    story.pool.environment["PREFECT_INTEGRATIONS_GPU_LEDGER_URL"] = own_ledger
    third = story.pool.start_worker()
    wait_for(lambda: reported in third.log.read_text(), "it says who acts", timeout_s=240)
    story.pool.stop_worker()
    story.pool.environment["PREFECT_INTEGRATIONS_GPU_LEDGER_URL"] = story.pool.ledger_url
    assert "with another ledger" in third.log.read_text()
    assert "Scheduling" not in third.log.read_text()


def values_change(story):
    """New workers take over what runs, with probes that ask their health server."""
    release, runs = story.release, story.runs.name
    release.upgrade(
        replicas=1,
        probes={"enabled": True, "port": free_port()},
        frameworks={"kubeflow": True, "spark": True},
    )
    assert release.restarts() == 0
    assert not may(release, runs, "create", "ray.io", "rayjobs")
    story.completes("after the upgrade")


def refused_upgrades_change_nothing(story):
    """Other points than a PriorityClass has, and an operator without cluster-wide rights."""
    release = story.release
    wait_for(lambda: len(release.pods()) == 1, "the workers before the upgrade have ended")
    before, revision = release.objects(), release.revision()
    policy = {**yaml.safe_load(release.values["policy"]), "priorities": {"critical": 7, "low": 1}}
    reported = (
        "PriorityClass prefect-gpu-critical has the value 1000000 and the policy says 7: "
        "Kubernetes changes no values. Delete it first "
        "(kubectl delete priorityclass prefect-gpu-critical)"
    )
    with pytest.raises(HelmFailed, match=re.escape(reported)):
        release.upgrade(policy=policy)

    operator = "operator-of-namespaces"
    for place in (release.namespace, story.runs.name):
        release.cluster.kubectl(
            "create", "rolebinding", operator, "--clusterrole=admin", f"--user={operator}",
            f"--namespace={place}",
        )  # fmt: skip
    with pytest.raises(HelmFailed, match=f'"{operator}" cannot .* at the cluster scope'):
        release.upgrade_as(operator)
    assert release.objects() == before
    assert release.revision() == revision
    story.completes("after the refused upgrades")


def running_pods(namespace):
    """The uids of the pods that run in this namespace."""
    pods = namespace.get("pods", "--field-selector=status.phase=Running")["items"]
    return [pod["metadata"]["uid"] for pod in pods]
