"""Where the platform team's template lets pods go."""

import pytest

from gpu_core.decisions.kubernetes.nodes.template_constraints import (
    admits,
    pod_spec_of,
    untolerated,
)

NODE = {"metadata": {"name": "n1", "labels": {"pool": "a", "gpus": "8"}}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def requiring(*terms):
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def term(key, operator, *values, field=False):
    kind = "matchFields" if field else "matchExpressions"
    return {kind: [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("pod_spec", "want"),
    [
        pytest.param({}, True, id="it says nothing"),
        pytest.param({"nodeSelector": {"pool": "a"}}, True, id="selected"),
        pytest.param({"nodeSelector": {"pool": "b"}}, False, id="another pool"),
        pytest.param({"nodeSelector": {"disk": "fast"}}, False, id="a label that it has not"),
        pytest.param({"nodeSelector": {"pool": "{{ node_pool }}"}}, True, id="a run says which"),
        pytest.param({"nodeSelector": "{{ node_selector }}"}, True, id="a run says all of it"),
        pytest.param(requiring(term("pool", "In", "b", "a")), True, id="in"),
        pytest.param(requiring(term("pool", "In", "b")), False, id="not in"),
        pytest.param(requiring(term("pool", "NotIn", "a")), False, id="excluded"),
        pytest.param(requiring(term("disk", "NotIn", "slow")), True, id="excluded, and not there"),
        pytest.param(requiring(term("pool", "Exists")), True, id="there"),
        pytest.param(requiring(term("disk", "Exists")), False, id="not there"),
        pytest.param(requiring(term("disk", "DoesNotExist")), True, id="must not be there"),
        pytest.param(requiring(term("gpus", "Gt", "4")), True, id="more"),
        pytest.param(requiring(term("gpus", "Lt", "8")), False, id="not less"),
        pytest.param(requiring(term("pool", "Gt", "4")), False, id="no number"),
        pytest.param(requiring(term("metadata.name", "In", "n2", field=True)), False, id="a name"),
        pytest.param(
            requiring(term("pool", "In", "b"), term("pool", "In", "a")), True, id="either"
        ),
        pytest.param(requiring(term("pool", "In", "{{ x }}")), True, id="a run says which value"),
        pytest.param(
            {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}},
            True,
            id="a preference refuses nothing",
        ),
    ],
)
def test_a_node_is_the_pool_s_where_the_template_lets_pods_on_it(pod_spec, want):
    assert admits(pod_spec, NODE) is want


def toleration(**fields):
    return {"tolerations": [fields]}


@pytest.mark.parametrize(
    ("pod_spec", "want"),
    [
        pytest.param({}, False, id="none"),
        pytest.param(toleration(key="sku", value="gpu", effect="NoSchedule"), True, id="the same"),
        pytest.param(toleration(key="sku", value="gpu"), True, id="whatever its effect"),
        pytest.param(toleration(key="sku", operator="Exists"), True, id="whatever its value"),
        pytest.param(toleration(operator="Exists"), True, id="whatever there is"),
        pytest.param(toleration(key="sku", value="cpu"), False, id="another value"),
        pytest.param(toleration(key="sku"), False, id="no value"),
        pytest.param(toleration(key="sku", value="gpu", effect="NoExecute"), False, id="effect"),
        pytest.param(toleration(key="dedicated", operator="Exists"), False, id="another key"),
        pytest.param({"tolerations": "{{ tolerations }}"}, False, id="a run says which"),
    ],
)
def test_a_taint_is_tolerated_as_kubernetes_does(pod_spec, want):
    taints = frozenset({"sku=gpu:NoSchedule"})
    assert untolerated(taints, pod_spec) == (frozenset() if want else taints)


@pytest.mark.parametrize(
    ("taint", "want"),
    [
        pytest.param("sku=gpu", True, id="without an effect"),
        pytest.param("sku", False, id="without a value"),
        pytest.param("sku=cpu", False, id="another value"),
    ],
)
def test_a_taint_of_nodes_to_come_may_be_written_shorter(taint, want):
    pod_spec = toleration(key="sku", value="gpu", effect="NoSchedule")
    assert untolerated(frozenset({taint}), pod_spec) == (frozenset() if want else {taint})


def test_where_the_template_has_its_pod():
    spec = {"nodeSelector": {"pool": "a"}}
    manifest = {"spec": {"template": {"spec": spec}}}
    assert pod_spec_of({"job_configuration": {"job_manifest": manifest}}) == spec
    assert pod_spec_of({"job_configuration": {"job_manifest": "{{ manifest }}"}}) == {}
    assert pod_spec_of({}) == {}
