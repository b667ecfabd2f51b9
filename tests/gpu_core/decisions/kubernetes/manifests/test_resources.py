"""How large a pod is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.kubernetes.manifests.resources import pod_size
from gpu_core.decisions.kubernetes.variables.quantities import memory_mib, parse_quantity
from gpu_core.decisions.kubernetes.variables.variables import parse_pod_request
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.workload import Shape
from gpu_core.testing.builders.manifests import make_kubernetes_policy

GIB = 1024


def size(shape, variables=None, gpu_type="a100-80gb", **policy):
    """The size under a policy with 10 CPUs and 100 GiB for each a100-80gb."""
    rows = {"a100-80gb": {"cpu": 10, "memory_gib": 100}, "default": {"cpu": 2, "memory_gib": 8}}
    request = parse_pod_request(variables or {})
    return pod_size(shape, request, make_kubernetes_policy(per_gpu=rows, **policy), gpu_type)


@pytest.mark.parametrize(
    ("shape", "variables", "gpu_type", "want_cpu_milli", "want_memory_gib"),
    [
        pytest.param(Shape(gpu_count=2), {}, "a100-80gb", 20_000, 200, id="the policy's, by GPU"),
        pytest.param(Shape(gpu_count=2), {}, "h200", 4_000, 16, id="a type that is not listed"),
        pytest.param(Shape(gpu_count=1), {}, None, 2_000, 8, id="an unknown type"),
        pytest.param(Shape(gpu_count=0), {}, "a100-80gb", 2_000, 8, id="no GPU"),
        pytest.param(
            Shape(gpu_count=4),
            {"cpu_per_gpu": 1.5, "memory_gib_per_gpu": 32},
            "a100-80gb",
            6_000,
            128,
            id="the run's own wish",
        ),
        pytest.param(
            Shape(gpu_count=1, cpu_milli=3_000, memory_mib=5 * GIB),
            {"cpu_per_gpu": 1, "memory_gib_per_gpu": 1},
            "a100-80gb",
            3_000,
            5,
            id="what the scheduler planned with comes first",
        ),
        pytest.param(
            Shape(gpu_count=1, gpu_share_milli=250), {}, "a100-80gb", 2_500, 25, id="a shared GPU"
        ),
        pytest.param(
            Shape(gpu_count=2, mig_profile="1g.10gb"), {}, "a100-80gb", 2_500, 25, id="MIG slices"
        ),
        pytest.param(
            Shape(gpu_count=0), {"cpu_per_gpu": 0.1, "memory_gib_per_gpu": 0.1}, None, 500, 1,
            id="never less than Python needs",
        ),
    ],
)  # fmt: skip
def test_cpu_and_memory(shape, variables, gpu_type, want_cpu_milli, want_memory_gib):
    found = size(shape, variables, gpu_type)
    assert (found.cpu_milli, found.memory_mib) == (want_cpu_milli, want_memory_gib * GIB)


@pytest.mark.parametrize(
    ("shape", "policy", "want"),
    [
        pytest.param(Shape(gpu_count=8), {}, {"nvidia.com/gpu": 8}, id="whole GPUs"),
        pytest.param(Shape(gpu_count=0), {}, {}, id="no GPU"),
        pytest.param(
            Shape(gpu_count=2, mig_profile="1g.10gb"),
            {},
            {"nvidia.com/mig-1g.10gb": 2},
            id="MIG, each profile by its name",
        ),
        pytest.param(
            Shape(gpu_count=1, mig_profile="1g.10gb+me"),
            {},
            {"nvidia.com/mig-1g.10gb.me": 1},
            id="a plus becomes a point",
        ),
        pytest.param(
            Shape(gpu_count=1, mig_profile="1g.10gb"),
            {"mig_strategy": "single"},
            {"nvidia.com/gpu": 1},
            id="MIG under the name of whole GPUs",
        ),
        pytest.param(
            Shape(gpu_count=1, gpu_share_milli=200),
            {},
            {"nvidia.com/gpu.shared": 1},
            id="a part of a shared GPU",
        ),
        pytest.param(
            Shape(gpu_count=1, gpu_share_milli=500),
            {"shares_per_gpu": 2, "shared_gpu_resource": "nvidia.com/gpu"},
            {"nvidia.com/gpu": 1},
            id="a shared GPU that is not renamed",
        ),
    ],
)
def test_gpus_by_the_device_plugins_name(shape, policy, want):
    found = size(shape, **policy)
    assert found.gpus == want
    resources = found.to_resources()
    for kind in ("requests", "limits"):
        gpus = {name: int(n) for name, n in resources[kind].items() if name.startswith("nvidia")}
        assert gpus == want


@pytest.mark.parametrize(
    ("shape", "want_allowed"),
    [
        pytest.param(Shape(gpu_count=1, gpu_share_milli=500), "0.25", id="more than one replica"),
        pytest.param(Shape(gpu_count=2, gpu_share_milli=250), "one part", id="two replicas"),
    ],
)
def test_a_part_that_replicas_cannot_give_is_refused(shape, want_allowed):
    with pytest.raises(InvalidInput, match="gpu_fraction is not available") as caught:
        size(shape)
    assert want_allowed in str(caught.value)


@pytest.mark.parametrize(
    ("planned_gib", "variables", "want_gib"),
    [
        pytest.param(0, {"memory_request": "64Gi"}, (64, 64), id="as it asks"),
        pytest.param(128, {"memory_request": "64Gi"}, (128, 128), id="planned with more"),
        pytest.param(
            128, {"memory_request": "64Gi", "memory_limit": "96Gi"}, (128, 192), id="a higher limit"
        ),
        pytest.param(128, {"memory_limit": "64Gi"}, (128, 128), id="a limit alone"),
    ],
)
def test_a_pod_that_is_planned_with_more_memory_has_a_higher_limit_too(
    planned_gib, variables, want_gib
):
    found = size(Shape(gpu_count=1, memory_mib=planned_gib * GIB), variables)
    assert (found.memory_mib, found.memory_limit_mib) == tuple(gib * GIB for gib in want_gib)


def test_shared_memory_is_half_of_the_memory_unless_the_run_says_otherwise():
    assert size(Shape()).shm_mib == 50 * GIB
    assert size(Shape(), {"shm_size": "8Gi"}).shm_mib == 8 * GIB


def test_shared_memory_leaves_some_of_the_memory():
    with pytest.raises(InvalidInput, match=r"shm_size uses all of the memory .* less than 100Gi"):
        size(Shape(), {"shm_size": "100Gi"})


@given(
    st.integers(0, 64),
    st.floats(0.01, 256),
    st.floats(0.01, 4096),
    st.sampled_from([None, "t4", "a100-80gb"]),
)
def test_limits_equal_requests_and_shared_memory_fits(gpus, cpu, memory_gib, gpu_type):
    variables = {"cpu_per_gpu": cpu, "memory_gib_per_gpu": memory_gib}
    found = size(Shape(gpu_count=gpus), variables, gpu_type)
    resources = found.to_resources()
    limits = resources["limits"]
    assert limits == {name: resources["requests"][name] for name in limits}
    assert found.shm_mib < memory_mib(limits["memory"], "memory") == found.memory_mib
    assert parse_quantity(resources["requests"]["cpu"], "cpu") >= cpu * max(1, gpus) * 0.999
