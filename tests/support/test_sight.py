"""What counts as held when pods are looked at."""

import pytest

from gpu_core.decisions.kubernetes.manifests.names import (
    ATTEMPT_ID_LABEL,
    FLOW_RUN_LABEL,
    POOL_LABEL,
)
from tests.support.cluster import GPU
from tests.support.sight import Sight


def pod(
    name,
    *,
    job="a",
    gpus=1,
    phase="Running",
    node="n1",
    is_ending=False,
    rank=0,
    attempt=1,
    state=None,
):
    metadata = {
        "name": name,
        "labels": {
            "job-name": f"{job}-rank-{rank}" if rank else job,
            FLOW_RUN_LABEL: f"run-{job}",
            ATTEMPT_ID_LABEL: f"{job}-{attempt}",
        },
    }
    return {
        "metadata": metadata | ({"deletionTimestamp": "now"} if is_ending else {}),
        "spec": {"containers": [{"resources": {"limits": {GPU: str(gpus)}}}]}
        | ({} if node is None else {"nodeName": node}),
        "status": {"phase": phase}
        | ({} if state is None else {"containerStatuses": [{"state": state}]}),
    }


WAITING = {"phase": "Pending", "node": None}


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([pod("x", gpus=2), pod("y", job="b")], 3, id="two runs"),
        pytest.param([pod("x", phase="Succeeded"), pod("y", phase="Failed")], 0, id="both ended"),
        pytest.param([pod("x", **WAITING)], 1, id="one that waits for its node"),
        pytest.param([pod("x", is_ending=True)], 1, id="one that is asked to end still holds"),
        pytest.param(
            [pod("x", is_ending=True), pod("y", **WAITING)], 1, id="another waits in its place"
        ),
        pytest.param([pod("x", is_ending=True), pod("y")], 2, id="which is on a node already"),
        pytest.param(
            [pod("x", is_ending=True), pod("y", job="b", **WAITING)], 2, id="which is another run's"
        ),
        pytest.param([pod("x"), pod("y", **WAITING)], 2, id="whose forerunner is to stay"),
    ],
)
def test_gpus_are_held_from_a_pods_creation_to_its_end(pods, want):
    sight = Sight()
    sight.see(pods)
    assert sight.most_gpus == want


def test_the_fullest_look_is_kept():
    sight = Sight()
    for pods in ([pod("x", gpus=4)], [pod("y", job="b", is_ending=True)], []):
        sight.see(pods)
    assert sight.fullest == ("x of run run-a: 4 GPUs, Running on n1",)
    assert sight.looks == 3


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([pod("x"), pod("y", job="b")], set(), id="two runs"),
        pytest.param([pod("x"), pod("y")], {"run-a"}, id="two of one Job"),
        pytest.param([pod("x"), pod("y", is_ending=True)], set(), id="one is asked to end"),
        pytest.param([pod("x"), pod("y", phase="Failed")], set(), id="one has ended"),
        pytest.param([pod("x"), pod("y", rank=1)], set(), id="two nodes of a gang"),
        pytest.param([pod("x"), pod("y", rank=1, attempt=2)], {"run-a"}, id="two attempts"),
    ],
)
def test_what_runs_twice(pods, want):
    sight = Sight()
    sight.see(pods)
    assert sight.twice == want


def test_where_and_when_an_attempt_ran_is_kept():
    def at(second):
        return f"2026-11-01T12:00:{second:02}Z"

    sight = Sight()
    sight.see([pod("x", gpus=2, state={"running": {"startedAt": at(7)}})])
    gang = pod("y", rank=1, node="n2", state={"running": {"startedAt": at(5)}})
    ended = {"terminated": {"startedAt": at(7), "finishedAt": at(30)}}
    unstarted = {"terminated": {"startedAt": "1970-01-01T00:00:00Z", "finishedAt": at(20)}}
    sight.see([pod("z", rank=2, node="n3", phase="Failed", state=unstarted)])
    sight.see([pod("x", gpus=2, phase="Succeeded", state=ended), gang])
    places = {"a": ("n1", 2), "a-rank-1": ("n2", 1), "a-rank-2": ("n3", 1)}
    assert sight.placed == {"a-1": places}
    assert (f"{sight.began['a-1']:%S}", f"{sight.ended['a-1']:%S}") == ("05", "30")


def test_each_pool_is_counted_alone():
    """A pod waits where another pool's was bound first; its own pool has not planned too much."""
    sight, pods = Sight(), [pod("p1", job="a", gpus=4), pod("p2", job="b", gpus=3, **WAITING)]
    for each, pool in zip(pods, ("one", "other"), strict=True):
        each["metadata"]["labels"][POOL_LABEL] = pool
    sight.see(pods)
    assert sight.most_gpus == 4
