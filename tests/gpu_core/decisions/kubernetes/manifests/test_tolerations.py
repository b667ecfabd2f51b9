"""Which taints of nodes does a pod tolerate?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.kubernetes.manifests.launch import Wanted
from gpu_core.decisions.kubernetes.nodes.taints_and_conditions import taint_text
from gpu_core.testing.builders.manifests import build, make_launch, pod_of


@pytest.mark.parametrize(
    ("taint", "want"),
    [
        pytest.param("dedicated", {"key": "dedicated", "operator": "Exists"}, id="a key"),
        pytest.param(
            "dedicated=ml:NoSchedule",
            {"key": "dedicated", "operator": "Equal", "value": "ml", "effect": "NoSchedule"},
            id="a whole taint",
        ),
        pytest.param(
            "dedicated:NoExecute",
            {"key": "dedicated", "operator": "Exists", "effect": "NoExecute"},
            id="a taint without a value",
        ),
        pytest.param(
            "dedicated=ml",
            {"key": "dedicated", "operator": "Equal", "value": "ml"},
            id="any effect",
        ),
    ],
)
def test_tolerations_of_the_run(taint, want):
    launch = make_launch(shape={"tolerations": frozenset({taint})})
    assert want in pod_of(build(launch).jobs[0])["tolerations"]


@given(
    st.from_regex(r"[a-z.]{1,9}(/[a-z]{1,9})?", fullmatch=True),
    st.sampled_from(["", "true", "ml-team"]),
    st.sampled_from(["NoSchedule", "NoExecute"]),
)
def test_a_taint_written_by_us_is_tolerated_by_us(key, value, effect):
    taint = {"key": key, "value": value, "effect": effect}
    launch = make_launch(0, place=Wanted(), shape={"tolerations": frozenset({taint_text(taint)})})
    *_, toleration = pod_of(build(launch).jobs[0])["tolerations"]
    assert (toleration["key"], toleration["effect"]) == (key, effect)
    assert toleration["operator"] == ("Equal" if value else "Exists")
    assert toleration.get("value", "") == value


@pytest.mark.parametrize(
    ("capacity_types", "want_spot"),
    [
        pytest.param(("spot",), True, id="spot"),
        pytest.param((), True, id="any"),
        pytest.param(("on-demand",), False, id="on-demand"),
    ],
)
def test_spot_taints_are_tolerated_where_spot_is_accepted(capacity_types, want_spot):
    launch = make_launch(place=Wanted(capacity_types=capacity_types))
    pod = pod_of(build(launch).jobs[0])
    keys = {toleration["key"] for toleration in pod["tolerations"]}
    spot = {"cloud.google.com/gke-spot", "kubernetes.azure.com/scalesetpriority"}
    assert keys == ({"nvidia.com/gpu", "sku"} | (spot if want_spot else set()))
