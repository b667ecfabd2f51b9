"""What counts as held when pods are looked at."""

import pytest

from gpu_core.decisions.kubernetes.names import ATTEMPT_ID_LABEL, FLOW_RUN_LABEL
from tests.support.cluster import GPU
from tests.support.sight import Sight


def pod(name, *, job="a", gpus=1, phase="Running", node="n1", is_ending=False):
    metadata = {
        "name": name,
        "labels": {"job-name": job, FLOW_RUN_LABEL: f"run-{job}", ATTEMPT_ID_LABEL: f"{job}-1"},
    }
    return {
        "metadata": metadata | ({"deletionTimestamp": "now"} if is_ending else {}),
        "spec": {"containers": [{"resources": {"limits": {GPU: str(gpus)}}}]}
        | ({} if node is None else {"nodeName": node}),
        "status": {"phase": phase},
    }


WAITING = {"phase": "Pending", "node": None}


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([pod("x", gpus=2), pod("y", job="b")], 3, id="two runs"),
        pytest.param([pod("x", phase="Succeeded"), pod("y", phase="Failed")], 0, id="both ended"),
        pytest.param([pod("x", **WAITING)], 1, id="one that waits for its node"),
        pytest.param([pod("x", is_ending=True)], 1, id="one that is told to end still holds"),
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
