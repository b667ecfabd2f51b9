"""Which nodes nobody waits for any more."""

from types import SimpleNamespace

import pytest

from gpu_core.decisions.kubernetes.names import ATTEMPT_ID_LABEL
from gpu_core.decisions.kubernetes.policy import KubernetesPolicy
from gpu_core.worker.kubernetes.fence import fenced_nodes
from gpu_core.worker.kubernetes.view import ClusterView
from tests.gpu_core.worker.kubernetes.objects import NOW, make_node, make_pod

POLICY = KubernetesPolicy(fenced_after="5m")


@pytest.mark.parametrize(
    ("told", "want"),
    [
        pytest.param([], False, id="no watch has told of it yet"),
        pytest.param([(None, make_node())], False, id="it is well"),
        pytest.param([(None, make_node(ready="Unknown", since_s=299))], False, id="silent"),
        pytest.param([(None, make_node(ready="Unknown", since_s=300))], True, id="for too long"),
        pytest.param([(None, make_node()), (make_node(), None)], True, id="it is gone"),
        pytest.param(
            [(None, make_node()), (make_node(), None), (None, make_node())],
            False,
            id="it was gone, and is there again",
        ),
    ],
)
def test_only_what_is_known_to_be_lost_is_fenced(told, want):
    view = ClusterView(SimpleNamespace(), lambda: None)
    view._pod_changed(None, make_pod(labels={ATTEMPT_ID_LABEL: "a"}))
    for before, after in told:
        view._node_changed(before, after)
    view.keep({"a"})
    assert fenced_nodes(view, POLICY, NOW) == (frozenset({"n1"}) if want else frozenset())
