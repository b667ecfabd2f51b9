"""Which nodes nothing waits for."""

import logging
from types import SimpleNamespace

import pytest

from gpu_core.decisions.kubernetes.manifests.names import ATTEMPT_ID_LABEL
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.testing.builders.attempts import make_run
from gpu_core.worker.kubernetes.cluster import fence
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache
from gpu_core.worker.kubernetes.cluster.fence import SilentNodes, fenced_nodes
from tests.gpu_core.worker.kubernetes.objects import NOW, make_node, make_pod

POLICY = KubernetesPolicy(fenced_after="5m")


def off(ready, taint="node.kubernetes.io/out-of-service"):
    node = make_node(ready=ready, since_s=1)
    return node | {"spec": {"taints": [{"key": taint, "effect": "NoExecute"}]}}


@pytest.mark.parametrize(
    ("reported", "want"),
    [
        pytest.param([], False, id="no watch has reported it yet"),
        pytest.param([(None, make_node())], False, id="it is well"),
        pytest.param([(None, make_node(ready="Unknown", since_s=299))], False, id="silent"),
        pytest.param([(None, make_node(ready="Unknown", since_s=300))], True, id="for too long"),
        pytest.param([(None, off("Unknown"))], True, id="silent, and its machine is off"),
        pytest.param([(None, off("True"))], False, id="called off, and reports all the same"),
        pytest.param([(None, make_node()), (make_node(), None)], True, id="it is gone"),
        pytest.param(
            [(None, make_node()), (make_node(), None), (None, make_node())],
            False,
            id="it was gone, and is there again",
        ),
    ],
)
def test_only_what_is_known_to_be_lost_is_fenced(reported, want):
    view = view_of(*reported)
    assert fenced_nodes(view, POLICY, NOW) == (frozenset({"n1"}) if want else frozenset())


def view_of(*reported):
    """A view with a pod of the attempt `a` on `n1`, and what the watch has reported of it."""
    view = ClusterCache(SimpleNamespace(), lambda: None)
    view._pod_changed(None, make_pod(labels={ATTEMPT_ID_LABEL: "a"}))
    for before, after in reported:
        view._node_changed(before, after)
    view.keep({"a"})
    return view


@pytest.mark.parametrize("since_s", [300, 86_400, 10**8])
def test_time_alone_fences_no_node_unless_the_policy_says_so(since_s):
    """The silent machine may go on writing: a run would execute twice."""
    view = view_of((None, make_node(ready="Unknown", since_s=since_s)))
    assert fenced_nodes(view, KubernetesPolicy(), NOW) == frozenset()


@pytest.mark.parametrize(
    "taint", ["node.kubernetes.io/out-of-service", "node.cloudprovider.kubernetes.io/shutdown"]
)
def test_the_word_that_a_machine_is_off_fences_its_node_at_once(taint):
    view = view_of((None, off("Unknown", taint)))
    assert fenced_nodes(view, KubernetesPolicy(), NOW) == {"n1"}


@pytest.fixture(autouse=True)
def its_log(monkeypatch):
    """The log of a run, without Prefect's server."""
    monkeypatch.setattr(fence, "run_log", lambda _: logging.getLogger("its run"))


def tellings(views, policy, caplog):
    """What the log of the run `a` gets while its cluster looks like this, one after the other."""
    attempt = SimpleNamespace(attempt=SimpleNamespace(attempt_id="a"), record=make_run())
    with caplog.at_level("WARNING", "its run"):
        silent_nodes = SilentNodes(views[0])
        for view in views:
            silent_nodes._view = view
            fenced = fenced_nodes(view, policy, NOW)
            silent_nodes.log([attempt], fenced, policy, NOW)
    return [record.getMessage() for record in caplog.records]


SILENT = (None, make_node(ready="Unknown", since_s=90))


def test_a_run_on_a_silent_node_says_once_what_it_waits_for_and_what_one_can_do(caplog):
    (text,) = tellings([view_of(SILENT), view_of(SILENT)], KubernetesPolicy(), caplog)
    assert "Node n1 has not reported since" in text
    assert "`kubernetes.fenced_after` is not set" in text
    assert "kubectl delete node n1" in text


@pytest.mark.parametrize(
    "reported",
    [
        pytest.param((None, make_node()), id="a node that is well"),
        pytest.param((None, make_node(ready="Unknown", since_s=59)), id="silent for a moment"),
        pytest.param((None, off("Unknown")), id="fenced: it goes on elsewhere"),
    ],
)
def test_it_says_nothing_otherwise(reported, caplog):
    assert tellings([view_of(reported)], KubernetesPolicy(), caplog) == []


def test_a_silence_after_a_recovery_is_said_again(caplog):
    views = [view_of(SILENT), view_of((None, make_node())), view_of(SILENT)]
    assert len(tellings(views, KubernetesPolicy(fenced_after="10m"), caplog)) == 2
    assert "is restarted after 600 seconds" in caplog.text
