"""GPUs that are held: noted on their node, and no pod gets one."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from gpu_core.decisions.kubernetes.manifests.node_preparation import (
    PREFLIGHT_ANNOTATION,
    NodeTest,
    annotation_of,
)
from gpu_core.decisions.kubernetes.nodes.held_gpus import (
    HELD_ANNOTATION,
    held_annotation,
    held_on,
    withheld_gpus,
    without_held,
)
from gpu_core.decisions.model.cluster import Machine, Node
from gpu_core.decisions.model.gpu_health import HealthVerdict, HeldGpu, move_reason

FOUND = datetime(2026, 11, 26, 12, tzinfo=UTC)
ILL = HeldGpu(
    gpu_id="GPU-a",
    verdict=HealthVerdict.RESET,
    reason="XID 79",
    remedy="restart it",
    found_at=FOUND,
)


def node(uid="u1", **annotations):
    return {"metadata": {"name": "n1", "uid": uid, "annotations": annotations}}


def noted(*gpus, uid="u1"):
    return held_annotation(node(uid), gpus, "2026-11-27")


def test_what_is_noted_is_read_again():
    there = {HELD_ANNOTATION: noted(ILL)}
    assert held_on(node(**there)) == {"GPU-a": ILL}
    assert move_reason([ILL]) == "GPU-a has failed: XID 79."


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({}, 0, id="nothing"),
        pytest.param({HELD_ANNOTATION: ""}, 0, id="empty"),
        pytest.param({HELD_ANNOTATION: noted(ILL, uid="u0")}, 0, id="a machine with its name"),
        pytest.param({HELD_ANNOTATION: "{"}, 1, id="cut off"),
        pytest.param({HELD_ANNOTATION: "[]"}, 1, id="a list"),
        pytest.param({HELD_ANNOTATION: "null"}, 1, id="null"),
        pytest.param(
            {HELD_ANNOTATION: json.dumps({"node": "u1", "gpus": {"GPU-a": {"verdict": "fine"}}})},
            1,
            id="an unknown verdict",
        ),
        pytest.param(
            {HELD_ANNOTATION: noted(ILL).replace("+00:00", "")}, 1, id="a moment without a zone"
        ),
    ],
)
def test_what_cannot_be_understood_stays_held(annotations, want):
    assert len(held_on(node(**annotations))) == want


@pytest.mark.parametrize(
    ("is_passed", "minutes", "want"),
    [
        pytest.param(True, 1, 0, id="it passed afterwards"),
        pytest.param(True, -1, 1, id="it had passed before"),
        pytest.param(False, 1, 1, id="it failed"),
    ],
)
def test_a_passed_preflight_frees_the_gpus_of_the_node(is_passed, minutes, want):
    test = NodeTest(is_passed=is_passed, at=FOUND + timedelta(minutes=minutes))
    annotations = {
        HELD_ANNOTATION: noted(ILL),
        PREFLIGHT_ANNOTATION: annotation_of(node(), test),
    }
    assert len(held_on(node(**annotations))) == want


@pytest.mark.parametrize(
    ("held", "withdrawn", "want_closed", "want_faulty"),
    [
        pytest.param(0, 0, False, 0, id="none is held"),
        pytest.param(1, 0, True, 1, id="the device plugin may still give it to a pod"),
        pytest.param(1, 1, False, 1, id="the device plugin has withdrawn it"),
        pytest.param(2, 1, True, 2, id="it has withdrawn one of two"),
        pytest.param(9, 0, True, 4, id="more than there are"),
    ],
)
def test_a_node_gets_no_runs_while_a_pod_may_get_a_held_gpu(
    held, withdrawn, want_closed, want_faulty
):
    machine = Machine(gpus=4, faulty_gpus=withdrawn)
    before = Node(name="n1", gpu_type="l4", gpu_ids=("0", "1", "2", "3"), machine=machine)
    after = without_held(before, [ILL] * held)
    assert (len(after.unhealthy_gpu_ids) == 4) is want_closed
    assert after.gpu_ids == before.gpu_ids
    assert after.machine.faulty_gpus == want_faulty
    assert withheld_gpus(after) == (4 - want_faulty if want_closed else 0)


def test_a_node_that_is_closed_for_another_reason_withholds_no_gpu():
    """They would idle without the held one, too."""
    gpu_ids = ("0", "1")
    cordoned = Node(
        name="n1", gpu_type="l4", gpu_ids=gpu_ids, unhealthy_gpu_ids=frozenset(gpu_ids),
        machine=Machine(gpus=2),
    )  # fmt: skip
    assert withheld_gpus(without_held(cordoned, [ILL])) == 0
