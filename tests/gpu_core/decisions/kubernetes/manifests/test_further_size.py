"""CPU and memory of a pod beyond the container of its run, counted as the kube-scheduler does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.kubernetes.manifests.further_size import further_size
from gpu_core.decisions.kubernetes.nodes.pod_requests import pod_requests

MAIN = {"name": "prefect-job", "resources": {"requests": {"cpu": "9", "memory": "9Gi"}}}


def container(cpu=None, memory=None, *, kind="requests", restarts=False):
    amounts = {"cpu": cpu, "memory": memory}
    found = {"resources": {kind: {name: value for name, value in amounts.items() if value}}}
    return {**found, "restartPolicy": "Always"} if restarts else found


def total_of(spec, main=0, own=(1000, 1024)):
    further = further_size(spec, main)
    return own if further is None else further.pod_total(*own)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [MAIN]}, (1000, 1024), id="the run alone"),
        pytest.param(
            {"containers": [MAIN, container("500m", "1Gi"), container("0.1", "64Mi")]},
            (1600, 2112),
            id="further containers are added",
        ),
        pytest.param(
            {"containers": [MAIN, container("2", "1Gi", kind="limits")]},
            (3000, 2048),
            id="a limit alone is the request",
        ),
        pytest.param(
            {"containers": [MAIN], "initContainers": [container("4", "512Mi")]},
            (4000, 1024),
            id="an init container counts where it needs more, for each resource",
        ),
        pytest.param(
            {"containers": [MAIN], "initContainers": [container("1", "1Gi", restarts=True)]},
            (2000, 2048),
            id="a restartable init container runs as well",
        ),
        pytest.param(
            {
                "containers": [MAIN],
                "initContainers": [container("1", "1Gi", restarts=True), container("3", "3Gi")],
            },
            (4000, 4096),
            id="an init container next to a restartable one",
        ),
        pytest.param(
            {"containers": [MAIN], "overhead": {"cpu": "250m", "memory": "120Mi"}},
            (1250, 1144),
            id="the overhead of the runtime",
        ),
        pytest.param(
            {"containers": [MAIN], "resources": {"requests": {"cpu": "8", "memory": "8Gi"}}},
            (8000, 8192),
            id="requests of the pod as a whole",
        ),
        pytest.param(
            {"containers": [MAIN, container("{{ prefect.variables.cpu }}", "1Gi")]},
            (1000, 2048),
            id="what is resolved later is left out",
        ),
        pytest.param({"containers": [MAIN, "{{ sidecar }}"]}, (1000, 1024), id="a placeholder"),
        pytest.param({"containers": [MAIN, container("100u")]}, (1001, 1024), id="rounded up"),
    ],
)
def test_a_pod_is_counted_as_the_kube_scheduler_does(spec, want):
    assert total_of(spec) == want


def test_the_runs_container_may_be_another_than_the_first():
    spec = {"containers": [container("1", "1Gi"), MAIN]}
    assert total_of(spec, main=1) == (2000, 2048)


AMOUNTS = st.integers(0, 4000)
CONTAINERS = st.builds(
    lambda cpu, memory, restarts: container(f"{cpu}m", f"{memory}Mi", restarts=restarts),
    AMOUNTS,
    AMOUNTS,
    st.booleans(),
)


@given(
    before=st.lists(CONTAINERS, max_size=3),
    beside=st.lists(CONTAINERS, max_size=3),
    overhead=st.tuples(AMOUNTS, AMOUNTS),
    own=st.tuples(st.integers(1, 9000), st.integers(1, 9000)),
)
def test_the_plan_is_what_the_pod_takes_and_leaves_the_run_its_own(before, beside, overhead, own):
    cpu, memory = overhead
    spec = {
        "containers": [MAIN, *beside],
        "initContainers": before,
        "overhead": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"},
    }
    total = total_of(spec, own=own)
    made = {**spec, "containers": [container(f"{own[0]}m", f"{own[1]}Mi"), *beside]}
    taken = pod_requests({"spec": made})
    assert total == (taken["cpu"] * 1000, taken["memory"] / 1024**2)
    further = further_size(spec, 0)
    if further is not None:
        left = further.left_for_run(*total)
        assert left[0] >= own[0]
        assert left[1] >= own[1]
        assert further.pod_total(*left) == total
