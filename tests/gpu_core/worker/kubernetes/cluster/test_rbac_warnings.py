"""Each right of the worker is used, none is used beyond them, and one that is missing is named."""

import base64
import json
import logging
from types import SimpleNamespace

import anyio
import pytest
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

from gpu_core.adapters.files.run_files import Notice
from gpu_core.adapters.kubernetes import KubernetesError
from gpu_core.adapters.kubernetes.lease import KubernetesLease
from gpu_core.decisions.kubernetes.manifests.names import ATTEMPT_ID_LABEL, POOL_LABEL
from gpu_core.decisions.kubernetes.rbac.rights import RIGHTS
from gpu_core.decisions.kubernetes.variables.frameworks import FRAMEWORKS
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.testing.builders.attempts import NOON
from gpu_core.testing.builders.manifests import TEMPLATE, make_launch
from gpu_core.worker.infrastructure import NotStarted
from gpu_core.worker.kubernetes.cluster import node_preparation as node_tasks
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache
from gpu_core.worker.kubernetes.cluster.event_recorder import EventRecorder
from gpu_core.worker.kubernetes.cluster.events import PodEvents
from gpu_core.worker.kubernetes.cluster.node_pools import NodePools
from gpu_core.worker.kubernetes.cluster.node_preparation import NodePreparation
from gpu_core.worker.kubernetes.cluster.own_account import read_workers_own
from gpu_core.worker.kubernetes.cluster.priority_classes import PriorityClasses
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights
from gpu_core.worker.kubernetes.jobs.attempt_objects import AttemptObjects
from gpu_core.worker.kubernetes.logs.final_logs import FinalLogs
from tests.gpu_core.adapters.kubernetes.api_server import serving
from tests.gpu_core.adapters.kubernetes.guarded_server import OF_WORKER, GuardedServer
from tests.gpu_core.worker.kubernetes.objects import make_job, make_pod
from tests.gpu_core.worker.kubernetes.of_cluster import of_cluster, running

LABELS = {ATTEMPT_ID_LABEL: "a", POOL_LABEL: "gpu"}
PREPARED = KubernetesPolicy.model_validate({"preflight": {"image": "cuda:12"}})
NODE = Node(name="n1", gpu_type="l4", gpu_ids=("0",), gpu_memory_gib=24)


async def until(condition):
    """Let others work until this holds."""
    while True:
        if condition():
            return
        await anyio.sleep(0.01)


async def watches(api, server):
    """What is there: until all is watched, or something is refused and that was understood."""
    view = ClusterCache(api, lambda: None)

    def is_watched():
        return sum(right.verb == "watch" for right in server.used) == 6

    def why_not():
        return view.failure or view.custom_jobs._why_not

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(view.start, tasks)
        await until(lambda: is_watched() or why_not())
        say(str(why_not()))
        tasks.cancel_scope.cancel()


async def names_the_cluster(api, server):
    server.objects["/api/v1/namespaces/kube-system"] = {"metadata": {"uid": "u"}}
    await of_cluster(api)._cluster_name()


async def reads_its_own_pod(api, server):
    claims = {
        "sub": f"system:serviceaccount:{OF_WORKER}:w",
        "kubernetes.io": {"pod": {"name": "w-1"}},
    }
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode()
    api._client.configuration.api_key["BearerToken"] = f"e30.{body}.c2ln"
    server.objects[f"/api/v1/namespaces/{OF_WORKER}/pods/w-1"] = {"spec": {}}
    await read_workers_own(api, MissingRights())


def starts(nodes=1, **variables):
    """A story that starts an attempt, and again, as a worker does that was killed between."""

    async def story(api, _server):
        objects = AttemptObjects(api, SimpleNamespace(), "ml", lambda: True)
        for _ in range(2):
            launch = make_launch(nodes=nodes, variables=variables)
            await objects.create(TEMPLATE, launch, KubernetesPolicy())

    return story


async def ends_what_it_started(api, _server):
    infrastructure = of_cluster(api)
    view = infrastructure._view
    view._job_changed(None, make_job() | {"metadata": {**make_job()["metadata"], "labels": LABELS}})
    view._pod_changed(None, make_pod(labels=LABELS))
    attempt = running(attempt_id="a")
    notice = Notice(reason="Preempted", message="m", requested_at=NOON, deadline_at=NOON)
    await infrastructure.notify(attempt, notice)
    await infrastructure._objects.delete("a", (), grace_s=None)


def ends(framework):
    """A story that ends an attempt which an operator runs."""

    async def story(api, _server):
        view = ClusterCache(api, lambda: None)
        metadata = {"name": "gpu-a", "namespace": "ml", "uid": "u", "labels": LABELS}
        kind = FRAMEWORKS[framework].kind
        view.custom_jobs._changed(None, {"kind": kind, "metadata": metadata, "status": {}})
        await AttemptObjects(api, view, "ml", lambda: True).delete("a", (), grace_s=None)

    return story


async def says_why_a_pod_does_not_start(api, _server):
    view = SimpleNamespace(
        pods_of=lambda _: [],
        jobs_of=lambda _: [make_job()],
        custom_jobs=SimpleNamespace(of=lambda _: None),
    )
    events = PodEvents(api, view, MissingRights())
    attempt = running(attempt_id="a")
    events._polled_at_s["a"] = -1000.0
    await events.refresh([attempt])


async def says_what_happens_to_a_run(api, _server):
    view = SimpleNamespace(
        jobs_of=lambda _: [make_job()], custom_jobs=SimpleNamespace(of=lambda _: None)
    )
    recorder = EventRecorder(api, view, MissingRights())
    recorder.record("a", EndReason.COMPLETED, "Attempt 1 ended.")
    await recorder.write_queued()


async def keeps_the_end_of_the_output(api, _server):
    pod = make_pod(terminated={"exitCode": 1})
    await FinalLogs(api, MissingRights()).keep("a", pod)


async def becomes_the_acting_worker(api, server):
    path = f"/apis/coordination.k8s.io/v1/namespaces/{OF_WORKER}/leases/gpu-pool-gpu"
    server.objects[path] = {"metadata": {"name": "gpu-pool-gpu"}, "spec": {}}  # the chart's
    lease = KubernetesLease(api, OF_WORKER, "gpu-pool-gpu", "worker-1")
    await lease.try_once()
    say(lease.failure or "")


async def plans_with_new_nodes(api, _server):
    await NodePools(api).refresh(KubernetesPolicy(provisioner="karpenter"))


async def looks_for_priority_classes(api, _server):
    policy = parse_policy({"version": 1, "kubernetes": {"priority_classes": True}})
    await PriorityClasses(api, MissingRights()).refresh(policy)


async def prepares_nodes(api, server):
    machine = {"metadata": {"name": "n1", "uid": "u", "annotations": {}}}
    tasks = NodePreparation(api, lambda: {"n1": machine}, "gpu", "ml", lambda: True)
    await tasks.reconcile([NODE], frozenset(), PREPARED)
    for path, pod in list(server.objects.items()):
        ended = {"name": "preflight", "state": {"terminated": {"exitCode": 0}}}
        pod["status"] = {"phase": "Succeeded", "containerStatuses": [ended]}
        assert "/pods/" in path
        await tasks._note(pod, node_tasks.ending_of(pod))


STORIES = {
    "watches": watches,
    "names the cluster": names_the_cluster,
    "reads its own pod": reads_its_own_pod,
    "starts a Job": starts(),
    "starts a gang": starts(nodes=2, container_command="train.py"),
    **{
        f"starts with {framework}": starts(framework=framework, container_command="train.py")
        for framework in FRAMEWORKS
    },
    "ends what it started": ends_what_it_started,
    **{f"ends with {framework}": ends(framework) for framework in FRAMEWORKS},
    "says why a pod does not start": says_why_a_pod_does_not_start,
    "tells what happens to a run": says_what_happens_to_a_run,
    "keeps the end of the output": keeps_the_end_of_the_output,
    "becomes the acting worker": becomes_the_acting_worker,
    "plans with new nodes": plans_with_new_nodes,
    "looks for PriorityClasses": looks_for_priority_classes,
    "prepares nodes": prepares_nodes,
}
"""What the worker does in a cluster, each with its own code."""

_said = logging.getLogger("prefect.gpu.tests")


def say(text):
    """What a page or another part of the worker would show."""
    _said.debug(text)


@pytest.fixture(autouse=True)
def _all_is_heard(monkeypatch, caplog):
    monkeypatch.setattr(logging.getLogger("prefect"), "propagate", True)
    caplog.set_level(logging.DEBUG, "prefect.gpu")
    monkeypatch.setattr(node_tasks, "_POLL_S", 0.0)
    with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):
        yield


def reported(story, rights):
    """Play a story in a cluster that grants these rights."""
    server = GuardedServer(rights)

    async def play():
        async with serving(server) as api:
            try:
                await story(api, server)
            except (KubernetesError, NotStarted) as error:
                say(str(error))

    anyio.run(play)
    return server


def test_the_worker_uses_all_its_rights_and_needs_no_other():
    servers = {name: reported(story, RIGHTS) for name, story in STORIES.items()}
    assert {name: server.refused for name, server in servers.items() if server.refused} == {}
    used = {right for server in servers.values() for right in server.used}
    assert [str(right) for right in RIGHTS if right not in used] == []


def story_of(right):
    """The story for which this right is needed."""
    if right.verb in ("list", "watch") and right.resource not in (
        "events", "nodepools", "priorityclasses"
    ):  # fmt: skip
        return "watches"
    framework = next(
        (key for key, kind in FRAMEWORKS.items() if kind.plural == right.resource), None
    )
    if framework is not None:
        return f"{'ends' if right.verb == 'delete' else 'starts'} with {framework}"
    return _STORY_OF[right.resource, right.verb]


_STORY_OF = {
    ("namespaces", "get"): "names the cluster",
    ("jobs", "create"): "starts a Job",
    ("jobs", "get"): "starts a Job",
    ("jobs", "delete"): "ends what it started",
    ("pods", "get"): "reads its own pod",
    ("pods", "patch"): "ends what it started",
    ("pods", "delete"): "ends what it started",
    ("pods/log", "get"): "keeps the end of the output",
    ("events", "list"): "says why a pod does not start",
    ("events", "create"): "tells what happens to a run",
    ("services", "create"): "starts a gang",
    ("services", "get"): "starts a gang",
    ("leases", "get"): "becomes the acting worker",
    ("leases", "update"): "becomes the acting worker",
    ("nodepools", "list"): "plans with new nodes",
    ("priorityclasses", "list"): "looks for PriorityClasses",
    ("pods", "create"): "prepares nodes",
    ("nodes", "patch"): "prepares nodes",
}


@pytest.mark.parametrize("right", RIGHTS, ids=str)
def test_a_right_that_is_missing_is_named(right, caplog):
    """By the API server's own words or ours: a user can grant it then."""
    others = [each for each in RIGHTS if each is not right]
    server = reported(STORIES[story_of(right)], others)
    assert {(a.verb, a.resource, a.group) for a in server.refused} == {
        (right.verb, right.resource, right.group)
    }
    theirs = f'cannot {right.verb} resource "{right.resource}" in API group "{right.group}"'
    assert theirs in caplog.text or f"may not {right} in " in caplog.text
