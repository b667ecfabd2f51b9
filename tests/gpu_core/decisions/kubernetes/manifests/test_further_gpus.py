"""A pod takes no GPUs beyond those of the run's own container."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.kubernetes.manifests.further_gpus import (
    further_requests,
    is_gpu_resource,
    plannable,
    unplanned,
)
from gpu_core.decisions.kubernetes.nodes.pod_requests import pod_requests
from gpu_core.decisions.kubernetes.operators import build_custom_job
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.manifests import (
    build,
    container_of,
    make_kubernetes_policy,
    make_launch,
    template,
    template_container,
)

RUN = {"name": "prefect-job", "image": "i"}


def asking(name, *, always=False, kind="limits", **resources):
    """A container that asks for these extended resources."""
    restart = {"restartPolicy": "Always"} if always else {}
    return {"name": name, "image": "i", "resources": {kind: resources}, **restart}


@pytest.mark.parametrize(
    ("pod", "gpus", "want"),
    [
        pytest.param(
            {"containers": [RUN, asking("side", **{"nvidia.com/gpu": "1"})]},
            4,
            r"containers\[1\].resources requests GPUs that were not planned .*Allowed: none",
            id="another container",
        ),
        pytest.param(
            {"containers": [asking("side", **{"nvidia.com/gpu": 1}), RUN]},
            4,
            r"containers\[0\]",
            id="another container before the run's",
        ),
        pytest.param(
            {"containers": [RUN, asking("side", kind="requests", **{"nvidia.com/gpu": 1})]},
            4,
            r"containers\[1\]",
            id="a request without a limit",
        ),
        pytest.param(
            {"initContainers": [asking("side", always=True, **{"nvidia.com/gpu": 1})]},
            4,
            r"initContainers\[0\].*Allowed: none",
            id="a restartable init container",
        ),
        pytest.param(
            {"initContainers": [asking("check", **{"nvidia.com/gpu": 4})]},
            4,
            None,
            id="an init container with as many",
        ),
        pytest.param(
            {"initContainers": [asking("check", **{"nvidia.com/gpu": 8})]},
            4,
            r"initContainers\[0\].*nvidia.com/gpu: 8.*Allowed: at most 4",
            id="an init container with more",
        ),
        pytest.param(
            {"initContainers": [asking("check", **{"nvidia.com/gpu": 1})]},
            0,
            r"Allowed: at most 0",
            id="an init container of a run without a GPU",
        ),
        pytest.param(
            {"initContainers": [asking("check", **{"nvidia.com/mig-1g.10gb": 1})]},
            4,
            r"nvidia.com/mig-1g.10gb: 1",
            id="a MIG instance",
        ),
        pytest.param(
            {"containers": [RUN, asking("side", **{"amd.com/gpu": 1})]},
            4,
            "amd.com/gpu",
            id="a GPU of another vendor",
        ),
        pytest.param(
            {"containers": [RUN, asking("side", **{"nvidia.com/gpu": 0, "cpu": 1})]},
            4,
            None,
            id="none, said as a number",
        ),
        pytest.param(
            {"containers": [RUN, asking("side", **{"vpc.amazonaws.com/efa": 1})]},
            4,
            None,
            id="what is no GPU",
        ),
    ],
)
def test_other_containers_take_no_gpus_beyond_the_plan(pod, gpus, want):
    if want is None:
        build(make_launch(gpus), template(**pod))
    else:
        with pytest.raises(InvalidInput, match=want):
            build(make_launch(gpus), template(**pod))


AMOUNTS = st.integers(min_value=0, max_value=3)


@given(
    planned=AMOUNTS,
    init=st.lists(st.tuples(AMOUNTS, st.booleans()), max_size=3),
    others=st.lists(AMOUNTS, max_size=2),
)
def test_what_is_not_refused_is_what_the_kube_scheduler_counts(planned, init, others):
    """No other container asks for a GPU, or the pod as a whole asks for what was planned."""
    gpu = "nvidia.com/gpu"
    spec = {
        "initContainers": [asking(f"i{n}", always=a, **{gpu: m}) for n, (m, a) in enumerate(init)],
        "containers": [
            asking("run", **{gpu: planned}),
            *(asking(f"c{n}", **{gpu: m}) for n, m in enumerate(others)),
        ],
    }
    errors = [*unplanned(further_requests(spec, 0), {gpu: planned}, make_kubernetes_policy())]
    counted = pod_requests({"spec": spec}).get(gpu, 0)
    assert bool(errors) == (counted > planned)


@pytest.mark.parametrize("framework", ["ray", "spark"])
def test_a_pod_without_gpus_has_no_container_with_one(framework):
    pool = template(initContainers=[asking("check", **{"nvidia.com/gpu": 1})])
    launch = make_launch(
        1, is_flow=False, variables={"framework": framework, "container_command": "a.py"}
    )
    with pytest.raises(InvalidInput, match=r"initContainers\[0\].*Allowed: at most 0"):
        build_custom_job(pool, launch, make_kubernetes_policy())


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/gpu.shared", True),
        ("nvidia.com/mig-3g.40gb", True),
        ("gpu.intel.com/i915", True),
        ("example.com/card", True),
        ("example.com/part", True),
        ("example.com/disk", False),
        ("rdma/hca", False),
        ("nvidia.com/hostdev", False),
        ("cpu", False),
    ],
)
def test_which_resources_are_gpus(name, want):
    pools = [
        {
            "match_labels": {"a": "b"},
            "gpu_resource": "example.com/card",
            "shared_gpu_resource": "example.com/part",
        }
    ]
    assert is_gpu_resource(name, make_kubernetes_policy(node_pools=pools)) is want


def test_before_its_node_is_known_a_run_may_get_gpus_of_any_name():
    policy = make_kubernetes_policy(
        node_pools=[{"match_labels": {"a": "b"}, "gpu_resource": "example.com/c"}]
    )
    assert plannable({"nvidia.com/gpu": 2}, policy) == {
        "nvidia.com/gpu": 2,
        "nvidia.com/gpu.shared": 2,
        "example.com/c": 2,
    }
    assert plannable({}, policy) == {}


def test_the_runs_own_container_has_the_planned_gpus_only():
    amounts = {"amd.com/gpu": 8, "nvidia.com/mig-1g.10gb": 1, "example.com/disk": 1}
    pool = template_container(resources={"limits": amounts, "requests": dict(amounts)})
    (job,) = build(make_launch(2), pool).jobs
    limits = container_of(job)["resources"]["limits"]
    assert {name: n for name, n in limits.items() if "/" in name} == {
        "nvidia.com/gpu": "2",
        "example.com/disk": 1,
    }


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param({"containers": None, "initContainers": "text"}, id="nonsense"),
        pytest.param({"initContainers": [3, {"resources": 1}]}, id="no containers"),
        pytest.param(
            {"initContainers": [asking("i", **{"nvidia.com/gpu": "{{ gpus }}"})]},
            id="a placeholder",
        ),
    ],
)
def test_what_cannot_be_read_asks_for_nothing(pod):
    assert further_requests(pod, 0) == ()
