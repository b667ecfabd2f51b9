"""What a pod takes of its node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.kubernetes.nodes.pod_requests import pod_requests


def pod(*containers, init=(), phase="Running", **spec):
    """A pod of containers that ask for so many cores; a sidecar is `(cores, True)`."""
    return {
        "spec": {
            "containers": [_container(cpu) for cpu in containers],
            "initContainers": [
                {**_container(cpu), **({"restartPolicy": "Always"} if is_sidecar else {})}
                for cpu, is_sidecar in init
            ],
            **spec,
        },
        "status": {"phase": phase},
    }


def _container(cpu):
    return {"resources": {"requests": {"cpu": str(cpu)}}}


@pytest.mark.parametrize(
    ("found", "want_cpu"),
    [
        pytest.param(pod(1, 2), 3, id="containers run together"),
        pytest.param(pod(1, init=[(5, False), (4, False)]), 5, id="init containers one by one"),
        pytest.param(pod(1, init=[(2, True)]), 3, id="a sidecar runs all the time"),
        pytest.param(
            pod(1, init=[(2, True), (4, False)]), 6, id="an init container next to a sidecar"
        ),
        pytest.param(
            pod(1, init=[(4, False), (2, True)]), 4, id="an init container before a sidecar"
        ),
        pytest.param(pod(1, overhead={"cpu": "250m"}), 1.25, id="the runtime's overhead"),
        pytest.param(
            pod(1, 1, resources={"requests": {"cpu": "5"}}), 5, id="a request of the whole pod"
        ),
        pytest.param(pod(1, phase="Succeeded"), 0, id="a pod that has ended"),
        pytest.param(pod(1, phase="Pending"), 1, id="a pod that waits on its node"),
    ],
)
def test_cpu(found, want_cpu):
    assert pod_requests(found).get("cpu", 0) == want_cpu


def test_a_limit_without_a_request_is_a_request():
    """As device plugins have it."""
    container = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
    assert pod_requests({"spec": {"containers": [container]}}) == {"nvidia.com/gpu": 2}


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=4),
)
def test_a_pod_never_takes_less_than_what_runs_at_once(containers, init):
    got = pod_requests(pod(*containers, init=init)).get("cpu", 0)
    sidecars = sum(cpu for cpu, is_sidecar in init if is_sidecar)
    assert got >= sum(containers) + sidecars
    assert got >= max((cpu for cpu, _ in init), default=0)
    assert got <= sum(containers) + sum(cpu for cpu, _ in init)
