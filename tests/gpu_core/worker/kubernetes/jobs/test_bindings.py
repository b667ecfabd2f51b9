"""Where an attempt really is, whether the worker or another system has placed it."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.attempts.phase import AttemptPhase
from gpu_core.decisions.kubernetes.manifests.names import ATTEMPT_ID_LABEL, POOL_LABEL, label_value
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.virtual_nodes import is_machine
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.testing.builders.attempts import NOON, make_attempt, make_run
from gpu_core.testing.builders.workloads import make_policy, with_shape
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.kubernetes.infrastructure import KubernetesInfrastructure
from gpu_core.worker.prefect.starts_first import StartsFirst
from tests.gpu_core.worker.kubernetes.objects import make_job, make_pod, moment
from tests.gpu_core.worker.kubernetes.of_cluster import LIMITS

KUEUE = make_policy(kubernetes={"kueue_queue": "gpus", "version": "1.34"})
OWN = make_policy(kubernetes={"version": "1.34"})
GPUS = {"nvidia-a": "NVIDIA-A10G", "nvidia-b": "NVIDIA-A10G", "tesla": "Tesla-T4"}


def a_node(name):
    amounts = {"nvidia.com/gpu": "2"}
    return {
        "metadata": {"name": name, "uid": name, "labels": {"nvidia.com/gpu.product": GPUS[name]}},
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def an_attempt(name, *places, policy=KUEUE):
    """An attempt that was planned there: `nvidia-a: 0 1`. With the policy `OWN` it is pinned."""
    shares = []
    for place in places:
        node, _, ids = place.partition(": ")
        shares.append(NodeShare(node=node, gpu_ids=tuple(ids.split())))
    is_pinned = policy is OWN and all(is_machine(share.node) for share in shares)
    return AttemptState(
        attempt=make_attempt(
            name,
            attempt_id=name,
            node=shares[0].node,
            gpu_ids=shares[0].gpu_ids,
            shares=tuple(shares),
            bound_at=NOON if is_pinned else None,
        ),
        record=make_run(),
        workload=Workload(workload_id=name, name=name, priority=1, submitted_at=NOON),
        request=GpuRequest(),
        limits=LIMITS,
        run_dir=Path("unused"),
    )


def a_waiting_attempt(name, *places, policy=KUEUE):
    """One that was admitted before its pods were bound."""
    running = an_attempt(name, *places, policy=policy)
    admitted_at = datetime.fromisoformat(moment(60))
    running.attempt = replace(running.attempt, admitted_at=admitted_at)
    return running


def a_pod(attempt, number, node, gpus=1):
    pod = make_pod(
        phase="Running" if node else "Pending",
        node=node,
        uid=f"{attempt}-{number}",
        labels={ATTEMPT_ID_LABEL: label_value(attempt), POOL_LABEL: "gpu"},
    )
    if gpus:
        limits = {"limits": {"nvidia.com/gpu": str(gpus)}}
        pod["spec"]["containers"][0]["resources"] = limits
    scheduled = {"type": "PodScheduled", "lastTransitionTime": moment(30)}
    pod["status"]["conditions"] = [scheduled | {"status": "True" if node else "False"}]
    return pod


def a_cluster(policy, *pods, nodes=None):
    infrastructure = KubernetesInfrastructure(
        SimpleNamespace(),
        output_api=SimpleNamespace(),
        pool="gpu",
        namespace="ml",
        client=SimpleNamespace(),
        wake=lambda: None,
        may_act=lambda: True,
        starts=StartsFirst(),
        prefect_secrets={},
    )
    for node in map(a_node, GPUS) if nodes is None else nodes:
        infrastructure._view._node_changed(None, node)
    for pod in pods:
        infrastructure._view._pod_changed(None, pod)
    infrastructure._offers.nodes(policy, ())
    return infrastructure


def moved(policy, attempts, *pods):
    """What the ledger says after one cycle: `node: ids` of each attempt."""
    infrastructure = a_cluster(policy, *pods)
    for running in attempts:
        landed = infrastructure.binding(running, attempts, policy)
        if landed is not None:
            running.attempt = replace(
                running.attempt,
                node=landed.placement.shares[0].node,
                gpu_ids=landed.placement.gpu_ids,
                gpu_type=landed.placement.gpu_type,
                shares=landed.placement.shares,
                bound_at=landed.since,
            )
    return [
        [f"{share.node}: {' '.join(share.gpu_ids)}" for share in running.attempt.held]
        for running in attempts
    ]


def test_the_node_that_kueue_chose_is_the_one_that_is_written_down():
    attempt = an_attempt("a", "nvidia-a: 0")
    assert moved(KUEUE, [attempt], a_pod("a", 0, "nvidia-b")) == [["nvidia-b: 0"]]


def test_another_gpu_type_is_written_down_too():
    """Its price follows from it."""
    attempt = an_attempt("a", "nvidia-a: 0")
    moved(KUEUE, [attempt], a_pod("a", 0, "tesla"))
    assert attempt.attempt.gpu_type == "t4"


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param(
            [a_pod("a", 0, "nvidia-b", 2), a_pod("b", 0, "nvidia-a", 2)],
            [["nvidia-b: 0 1"], ["nvidia-a: 0 1"]],
            id="each is where the other was planned",
        ),
        pytest.param(
            [a_pod("a", 0, "nvidia-b", 2), a_pod("b", 0, None, 2)],
            [["nvidia-b: 0 1"], ["nvidia-b: 0 1"]],
            id="one that is still to be placed takes nothing from one that is there",
        ),
        pytest.param(
            [a_pod("a", 0, None, 2), a_pod("b", 0, "nvidia-b", 2)],
            [["nvidia-a: 0 1"], ["nvidia-b: 0 1"]],
            id="as planned, or not yet bound",
        ),
    ],
)
def test_what_is_not_where_it_was_planned_takes_no_place_there(pods, want):
    attempts = [an_attempt("a", "nvidia-a: 0 1"), an_attempt("b", "nvidia-b: 0 1")]
    assert moved(KUEUE, attempts, *pods) == want


def test_two_on_one_node_have_different_gpus():
    attempts = [an_attempt("a", "nvidia-a: 0"), an_attempt("b", "nvidia-a: 1")]
    pods = [a_pod("a", 0, "nvidia-b"), a_pod("b", 0, "nvidia-b")]
    found = moved(KUEUE, attempts, *pods)
    assert sorted(found) == [["nvidia-b: 0"], ["nvidia-b: 1"]]


def test_two_nodes_of_a_gang_that_others_put_on_one_have_different_gpus():
    """Also for the plan of the next cycle, whose sum of what is held has no GPU twice."""
    attempt = an_attempt("a", "nvidia-a: 0", "nvidia-b: 0")
    pods = [a_pod("a", 0, "tesla"), a_pod("a", 1, "tesla")]
    assert moved(KUEUE, [attempt], *pods) == [["tesla: 0", "tesla: 1"]]


def test_a_run_bound_to_the_planned_node_gets_gpus_there_that_no_run_has():
    """Another one was bound there first, and has what was planned for it."""
    attempts = [a_waiting_attempt("a", "nvidia-b: 1"), a_waiting_attempt("b", "nvidia-b: 1")]
    pods = [a_pod("a", 0, "nvidia-b"), a_pod("b", 0, "nvidia-b")]
    assert sorted(moved(KUEUE, attempts, *pods)) == [["nvidia-b: 0"], ["nvidia-b: 1"]]


def test_gpus_are_held_from_when_the_pod_is_bound_where_it_was_planned():
    """Until then its Job waits in the line of Kueue."""
    attempt = a_waiting_attempt("a", "nvidia-a: 1")
    infrastructure = a_cluster(KUEUE, a_pod("a", 0, "nvidia-a"))
    landed = infrastructure.binding(attempt, [], KUEUE)
    assert landed.since == datetime.fromisoformat(moment(30)) > attempt.attempt.admitted_at
    assert landed.placement.shares == attempt.attempt.held
    attempt.attempt = replace(attempt.attempt, admitted_at=landed.since, bound_at=landed.since)
    assert infrastructure.binding(attempt, [], KUEUE) is None


def test_where_it_was_is_known_when_its_pod_is_gone():
    """It may end, and a user may delete its pod, it is read."""
    pod = a_pod("a", 0, "nvidia-b")
    infrastructure = a_cluster(KUEUE, pod)
    infrastructure._view._pod_changed(pod, None)
    landed = infrastructure.binding(an_attempt("a", "nvidia-a: 0"), [], KUEUE)
    assert landed is not None
    assert landed.placement.shares[0].node == "nvidia-b"


def test_where_it_was_is_known_when_the_pods_of_others_have_its_gpus_by_now():
    """They were bound after it had ended, before this worker looked."""
    ended, foreign = (a_pod(name, 0, "nvidia-b", 2) for name in ("a", "b"))
    ended["status"]["phase"] = "Succeeded"
    foreign["metadata"]["labels"][POOL_LABEL] = "other"
    attempt = an_attempt("a", "nvidia-a: 0 1")
    assert moved(KUEUE, [attempt], ended, foreign) == [["nvidia-b: 0 1"]]


def test_what_was_promised_is_held_from_its_promise_on():
    infrastructure = a_cluster(OWN, a_pod("a", 0, "nvidia-a"))
    attempt = a_waiting_attempt("a", "nvidia-a: 1", policy=OWN)
    assert infrastructure.binding(attempt, [], OWN) is None


def test_a_run_still_to_be_placed_holds_no_gpu_that_another_has():
    """Otherwise the plan would have it twice, and no run would be started."""
    waiting, placed = an_attempt("a", "nvidia-b: 0 1"), an_attempt("b", "nvidia-b: 0")
    infrastructure = a_cluster(KUEUE, a_pod("a", 0, None), a_pod("b", 0, "nvidia-b"))
    found = infrastructure.allocations([waiting, placed], KUEUE)
    held = {each.workload.workload_id: each.placement.gpu_ids for each in found}
    assert held == {"a": ("1",), "b": ("0",)}


def test_a_gang_is_written_down_node_by_node_and_its_launcher_counts_for_nothing():
    attempt = an_attempt("a", "nvidia-a: 0", "nvidia-b: 0")
    pods = [a_pod("a", 0, "tesla"), a_pod("a", 1, "nvidia-b"), a_pod("a", 2, "nvidia-a", gpus=0)]
    assert moved(KUEUE, [attempt], *pods) == [["tesla: 0", "nvidia-b: 0"]]


def test_a_gang_of_which_one_is_not_bound_stays_as_planned():
    attempt = an_attempt("a", "nvidia-a: 0", "nvidia-b: 0")
    pods = [a_pod("a", 0, "tesla"), a_pod("a", 1, None)]
    assert moved(KUEUE, [attempt], *pods) == [["nvidia-a: 0", "nvidia-b: 0"]]


def test_a_pinned_pod_that_is_not_bound_keeps_its_place_from_who_waited_for_a_new_node():
    """Without Kueue a plan is a promise: its pod goes nowhere else."""
    attempts = [an_attempt("a", "new/big/0: 0 1"), an_attempt("b", "nvidia-b: 0 1", policy=OWN)]
    pods = [a_pod("a", 0, "nvidia-b", 2), a_pod("b", 0, None, 2)]
    assert moved(OWN, attempts, *pods) == [["new/big/0: 0 1"], ["nvidia-b: 0 1"]]


@pytest.mark.parametrize(
    ("policy", "node", "want"),
    [
        pytest.param(KUEUE, None, False, id="Kueue has not placed it"),
        pytest.param(KUEUE, "nvidia-a", True, id="Kueue has placed it"),
        pytest.param(OWN, None, True, id="a plan of our own reserves its GPUs"),
    ],
)
def test_an_attempt_holds_gpus_once_a_scheduler_has_placed_it(policy, node, want):
    infrastructure = a_cluster(policy, a_pod("a", 0, node))
    assert infrastructure.held_gpus(an_attempt("a", "nvidia-a: 0", policy=policy)) is want


def test_a_job_whose_pods_are_gone_held_gpus_where_it_counts_one_that_ended():
    infrastructure = a_cluster(KUEUE)
    attempt = an_attempt("a", "nvidia-a: 0")
    assert not infrastructure.held_gpus(attempt), "nothing shows that it was on a node"
    job = make_job()
    job["metadata"]["labels"] = {ATTEMPT_ID_LABEL: label_value("a")}
    infrastructure._view._job_changed(None, job)
    assert not infrastructure.held_gpus(attempt)
    infrastructure._view._job_changed(job, job | {"status": {"succeeded": 1}})
    assert infrastructure.held_gpus(attempt)


ONE_GPU_EACH = [("a", "nvidia-a: 0"), ("b", "nvidia-a: 1"), ("c", "nvidia-b: 0"), ("d", "tesla: 1")]


@given(
    # The kube-scheduler gives no node more pods than it has GPUs.
    places=st.permutations(["nvidia-a", "nvidia-a", "nvidia-b", "nvidia-b", "tesla", "tesla"]),
    order=st.permutations("abcd"),
    waiting=st.sets(st.sampled_from("abcd")),
)
def test_the_ledger_has_the_nodes_of_the_pods_and_no_gpu_twice_in_whatever_order_they_are_bound(
    places, order, waiting
):
    attempts = {name: an_attempt(name, place) for name, place in ONE_GPU_EACH}
    nodes = dict(zip("abcd", places, strict=False))
    infrastructure = a_cluster(KUEUE)
    for name in order:
        if name not in waiting:
            infrastructure._view._pod_changed(None, a_pod(name, 0, nodes[name]))
        for running in attempts.values():
            landed = infrastructure.binding(running, list(attempts.values()), KUEUE)
            if landed is not None:
                (share,) = landed.placement.shares
                running.attempt = replace(
                    running.attempt,
                    node=share.node,
                    gpu_ids=share.gpu_ids,
                    shares=(share,),
                    admitted_at=max(landed.since, running.attempt.admitted_at),
                    bound_at=landed.since,
                )
    bound = {name: attempts[name].attempt for name in "abcd" if name not in waiting}
    assert {name: each.node for name, each in bound.items()} == {
        name: nodes[name] for name in bound
    }
    gpus = [
        (share.node, gpu) for each in bound.values() for share in each.held for gpu in share.gpu_ids
    ]
    assert len(gpus) == len(set(gpus)) == len(bound)


def settled(policy, attempt, infrastructure, others=()):
    """What the ledger says once nothing of it lives: `node: ids`, its GPU type, its first node."""
    found = infrastructure.final_binding(attempt, others, policy)
    if found is None:
        return None
    shares = [f"{share.node}: {' '.join(share.gpu_ids)}" for share in found.placement.shares]
    return shares, found.placement.gpu_type, found.node and found.node.name


@pytest.mark.parametrize(
    ("policy", "planned"),
    [
        pytest.param(KUEUE, "nvidia-a: 0", id="Kueue has placed it"),
        pytest.param(OWN, "new/big/0: 0", id="it waited for a new node"),
    ],
)
@pytest.mark.parametrize("is_new", [False, True], ids=["it was planned with", "it came and went"])
def test_a_node_that_is_deleted_before_a_cycle_is_the_one_that_is_written_down(
    policy, planned, is_new
):
    """With its GPU type, from which the price follows."""
    pod = a_pod("a", 0, "tesla")
    seen = [a_node("nvidia-a"), a_node("nvidia-b")]
    infrastructure = a_cluster(policy, pod, nodes=seen if is_new else None)
    if is_new:
        infrastructure._view._node_changed(None, a_node("tesla"))
    infrastructure._view._node_changed(a_node("tesla"), None)
    infrastructure._view._pod_changed(pod, None)
    infrastructure._view.keep({"a"})
    infrastructure._offers.nodes(policy, ())
    landed = infrastructure.binding(an_attempt("a", planned, policy=policy), [], policy)
    assert landed is not None
    assert [share.node for share in landed.placement.shares] == ["tesla"]
    assert (landed.placement.gpu_type, landed.node.name) == ("t4", "tesla")


def in_job(pod, job):
    pod["metadata"]["labels"]["job-name"] = job
    return pod


@pytest.mark.parametrize(
    ("policy", "planned", "pods", "want"),
    [
        pytest.param(
            *(KUEUE, ["nvidia-a: 0"], [a_pod("a", 0, "gone")]),
            (["gone: 0"], "unknown", None),
            id="a node that this worker never saw: its name is known, and nothing else",
        ),
        pytest.param(
            *(OWN, ["new/big/0: 0"], [a_pod("a", 0, "gone")]),
            (["gone: 0"], "a10g", None),
            id="such a node of a kind that was waited for has the GPUs of that kind",
        ),
        pytest.param(
            *(KUEUE, ["nvidia-a: 0"], [a_pod("a", 0, None)]),
            (["unknown: 0"], "unknown", None),
            id="no pod was on a node",
        ),
        pytest.param(
            *(KUEUE, ["nvidia-a: 0"], []),
            (["unknown: 0"], "unknown", None),
            id="its pod was not observed",
        ),
        pytest.param(
            *(KUEUE, ["nvidia-a: 0", "nvidia-b: 0"], [a_pod("a", 0, None), a_pod("a", 1, "tesla")]),
            (["tesla: 0", "unknown: 0"], "t4", "tesla"),
            id="one pod of a gang was on a node",
        ),
        pytest.param(
            *(KUEUE, ["nvidia-a: 0"]),
            [in_job(a_pod("a", 0, "tesla"), "j"), in_job(a_pod("a", 1, None), "j")],
            (["tesla: 0"], "t4", "tesla"),
            id="another pod was made in place of one that was deleted",
        ),
        pytest.param(
            *(KUEUE, ["nvidia-a: 0 1 2"], [a_pod("a", 0, "nvidia-b", 3)]),
            (["nvidia-b: 0 1 2"], "a10g", "nvidia-b"),
            id="the node offers fewer GPUs by now",
        ),
        pytest.param(
            *(KUEUE, ["nvidia-a: 0"], [a_pod("a", 0, "nvidia-a")]), None, id="it was as planned"
        ),
        pytest.param(
            *(OWN, ["nvidia-a: 0"], [a_pod("a", 0, None)]), None, id="its Job was pinned to a node"
        ),
        pytest.param(
            *(OWN, ["new/big/0: 0"], [a_pod("a", 0, None)]), None, id="no node came for it"
        ),
    ],
)
def test_what_is_not_known_of_a_place_is_not_made_up(policy, planned, pods, want):
    attempt = an_attempt("a", *planned, policy=policy)
    assert settled(policy, attempt, a_cluster(policy, *pods)) == want


def test_a_run_that_asked_for_one_gpu_type_had_it_also_where_its_node_is_unknown():
    attempt = an_attempt("a", "nvidia-a: 0")
    attempt.workload = with_shape(attempt.workload, gpu_types=("a10g",))
    assert settled(KUEUE, attempt, a_cluster(KUEUE)) == (["unknown: 0"], "a10g", None)


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([], None, id="it has seen no pod"),
        pytest.param([a_pod("a", 0, "nvidia-a")], None, id="it has seen one where it was"),
        pytest.param(
            [a_pod("a", 0, "tesla")],
            (["tesla: 0", "unknown: 0"], "t4", "tesla"),
            id="it has seen one elsewhere",
        ),
    ],
)
def test_what_an_earlier_worker_saw_stands_unless_it_is_contradicted(pods, want):
    """It has seen the pods that are gone."""
    attempt = an_attempt("a", "nvidia-a: 0", "nvidia-b: 0")
    attempt = replace(attempt, phase_at_first=AttemptPhase.RECOVERING)
    attempt.attempt = replace(attempt.attempt, bound_at=NOON)
    assert settled(KUEUE, attempt, a_cluster(KUEUE, *pods)) == want


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([a_pod("a", 0, "tesla", gpus=0)], "tesla", id="its pod was seen on a node"),
        pytest.param([], "unknown", id="its pod was not observed"),
    ],
)
def test_a_run_without_gpus_is_on_no_planned_node_either(pods, want):
    attempt = an_attempt("a", "nvidia-a: ")
    attempt.attempt = replace(attempt.attempt, gpu_type=None)
    infrastructure = a_cluster(KUEUE, *pods)
    found = infrastructure.binding(attempt, [], KUEUE)
    assert (found is None) is (want == "unknown")
    found = found or infrastructure.final_binding(attempt, [], KUEUE)
    assert [share.node for share in found.placement.shares] == [want]
    assert found.placement.gpu_type is None


def test_what_an_earlier_worker_only_planned_does_not_stand():
    """All pods vanished while no worker acted, and none had seen them on a node."""
    attempt = an_attempt("a", "nvidia-a: 0", "nvidia-b: 0")
    attempt = replace(attempt, phase_at_first=AttemptPhase.RECOVERING)
    assert settled(KUEUE, attempt, a_cluster(KUEUE)) == (
        ["unknown: 0", "unknown: 0"], "unknown", None,
    )  # fmt: skip


@pytest.mark.parametrize("policy", [KUEUE, OWN], ids=["by Kueue", "by the worker's plan"])
def test_the_policy_of_now_does_not_say_how_an_attempt_was_placed(policy):
    """It was edited since: the attempt of the other policy is judged by what was written down."""
    planned, pinned = an_attempt("a", "nvidia-a: 0"), an_attempt("b", "nvidia-b: 0", policy=OWN)
    infrastructure = a_cluster(policy)
    assert settled(policy, planned, infrastructure) == (["unknown: 0"], "unknown", None)
    assert settled(policy, pinned, infrastructure) is None
    assert not infrastructure.held_gpus(planned)
    assert infrastructure.held_gpus(pinned)


@pytest.mark.parametrize(
    ("policy", "gpu_types", "want"),
    [
        pytest.param(OWN, (), "a10g", id="pinned: that of its node"),
        pytest.param(KUEUE, (), None, id="placed by others: unknown"),
        pytest.param(KUEUE, ("t4", "a10g"), None, id="placed by others, one of two"),
        pytest.param(KUEUE, ("t4",), "t4", id="placed by others: the only one that it asks for"),
    ],
)
def test_a_run_reads_only_what_is_certain_of_its_node(policy, gpu_types, want):
    """At its start, before its pod exists."""
    attempt = an_attempt("a", "nvidia-a: 0", policy=policy)
    attempt.workload = with_shape(attempt.workload, gpu_types=gpu_types)
    node = a_node("nvidia-a")
    node["metadata"]["creationTimestamp"] = moment(600)
    infrastructure = a_cluster(policy, nodes=[node])
    planned = RunContext(flow_run_id="a", attempt=1, attempt_id="a", gpu_type="a10g")
    context = anyio.run(infrastructure.context, attempt, planned)
    assert context.gpu_type == want
    assert (context.capacity_since is None) is (policy is KUEUE)


@pytest.mark.parametrize(
    ("policy", "node", "want"),
    [
        pytest.param(OWN, None, True, id="its pod is pinned to it"),
        pytest.param(KUEUE, None, False, id="Kueue may place it elsewhere"),
        pytest.param(OWN, "nvidia-b", False, id="its pod is on another node"),
    ],
)
def test_nothing_waits_for_a_node_that_is_gone(policy, node, want):
    """Without that it would wait for `pending_timeout`, at the price of GPUs that are not there."""
    infrastructure = a_cluster(policy, a_pod("a", 0, node))
    infrastructure._view._node_changed(a_node("nvidia-a"), None)
    found = infrastructure.trouble(an_attempt("a", "nvidia-a: 0", policy=policy), policy, NOON)
    assert (found is not None) is want
    if found is not None:
        assert found.message == "Node nvidia-a was removed before its pod was bound."
