"""Nodes that have to prove themselves, and images that are there before the first run."""

from datetime import UTC, datetime, timedelta

import pytest

from gpu_core.decisions.kubernetes.lint import lint
from gpu_core.decisions.kubernetes.manifests.node_preparation import (
    PREFLIGHT_ANNOTATION,
    PREPULL_ANNOTATION,
    NodeTest,
    annotation_of,
    has_images,
    images_key,
    is_test_due,
    kept_out_by,
    node_test,
    preflight_pod,
    prepull_pod,
)
from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.testing.builders.manifests import make_kubernetes_policy
from tests.support.kubernetes_schemas import FIRST_AND_LAST, schema_errors

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
PREFLIGHT = {"image": "cuda:12", "every": "1d"}
POLICY = make_kubernetes_policy(preflight=PREFLIGHT, prepull=["train:1", "serve:2"])


def node_object(test=None, uid="machine-1", **annotations):
    """A Node object; `test` is how its test went, noted while it was `machine-1`."""
    node = {"metadata": {"name": "n1", "uid": "machine-1", "annotations": dict(annotations)}}
    if test is not None:
        node["metadata"]["annotations"][PREFLIGHT_ANNOTATION] = annotation_of(node, test)
    node["metadata"]["uid"] = uid
    return node


def a_test(hours_ago, is_passed=True, detail=None):
    return NodeTest(is_passed=is_passed, at=NOW - timedelta(hours=hours_ago), detail=detail)


@pytest.mark.parametrize(
    ("node", "want_words", "want_due"),
    [
        pytest.param(node_object(), "not been tested yet", True, id="new"),
        pytest.param(node_object(a_test(1)), None, False, id="proved"),
        pytest.param(node_object(a_test(23.9)), None, False, id="proved a day ago, almost"),
        pytest.param(
            node_object(a_test(24)), "last test was 1d 00h ago", True, id="proved too long ago"
        ),
        pytest.param(
            node_object(a_test(1), uid="machine-2"), "not been tested yet", True,
            id="another machine of the same name",
        ),
        pytest.param(
            node_object(a_test(0.5, False, "exit code 9")), "failed 30m 00s ago: exit code 9",
            False, id="failed",
        ),
        pytest.param(
            node_object(a_test(1, False, "exit code 9")), "failed 1h 00m ago", True,
            id="failed, and tested again after an hour",
        ),
        pytest.param(
            node_object(**{PREFLIGHT_ANNOTATION: "yes"}), "not been tested yet", True,
            id="a note that cannot be read",
        ),
    ],
)  # fmt: skip
def test_a_node_gets_work_once_it_is_proved(node, want_words, want_due):
    found = kept_out_by(node, POLICY.preflight, NOW)
    assert (found is None) == (want_words is None)
    assert (want_words or "") in (found or "")
    assert is_test_due(node, POLICY.preflight, NOW) is want_due


def test_what_is_noted_is_read_again():
    test = a_test(1, False, "x" * 500)
    found = node_test(node_object(test))
    assert found is not None
    assert (found.is_passed, found.at, found.detail) == (False, test.at, "x" * 200)


@pytest.mark.parametrize(
    ("annotations", "images", "want"),
    [
        pytest.param({}, (), True, id="none are wanted"),
        pytest.param({}, ("a",), False, id="a new node"),
        pytest.param({PREPULL_ANNOTATION: images_key(("a",))}, ("a",), True, id="pulled"),
        pytest.param({PREPULL_ANNOTATION: images_key(("a",))}, ("a", "b"), False, id="a new list"),
    ],
)  # fmt: skip
def test_images_are_pulled_once_for_each_list(annotations, images, want):
    assert has_images(node_object(**annotations), images) is want


NODE = Node(
    name="n1",
    gpu_type="a100-80gb",
    gpu_ids=("0", "1", "2", "3"),
    gpu_memory_gib=80,
    unhealthy_gpu_ids=frozenset({"3"}),
)


def pods():
    """Both kinds of pods."""
    tester = preflight_pod(NODE, "uid-1", POLICY, POLICY.preflight, "gpu")
    return tester, prepull_pod("n1", "uid-1", POLICY, "gpu")


def test_pods_are_valid_keep_to_restricted_and_are_no_strangers():
    for pod in pods():
        assert schema_errors(pod, FIRST_AND_LAST) == []
        assert lint(pod, POLICY) == ()
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["metadata"]["labels"]["prefect-gpu.dev/pool"] == "gpu"
        term = pod["spec"]["affinity"]["nodeAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]["nodeSelectorTerms"][0]
        assert term["matchFields"][0]["values"] == ["n1"]


def test_the_tester_gets_all_gpus_that_are_well_and_the_puller_none():
    tester, puller = pods()
    (container,) = tester["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "3"
    assert (container["image"], container["command"]) == ("cuda:12", ["nvidia-smi"])
    assert [c["image"] for c in puller["spec"]["containers"]] == ["train:1", "serve:2"]
    assert all(
        "nvidia.com/gpu" not in c["resources"]["limits"] for c in puller["spec"]["containers"]
    )


@pytest.mark.parametrize(
    ("section", "want"),
    [
        pytest.param({"preflight": {}}, "kubernetes.preflight.image", id="a test without an image"),
        pytest.param(
            {"preflight": {"image": "i", "command": "a 'b"}},
            "is not a valid command",
            id="an open quote",
        ),
        pytest.param({"preflight": {"image": "i", "command": ""}}, "is not a command", id="empty"),
        pytest.param({"preflight": {"image": "i", "every": "0s"}}, "every", id="all the time"),
        pytest.param({"prepull": ["a", ""]}, "prepull", id="an image without a name"),
    ],
)
def test_what_is_wrong_in_the_policy_is_said(section, want):
    with pytest.raises(InvalidInput) as caught:
        parse_policy({"version": 1, "kubernetes": section})
    assert want in str(caught.value)
