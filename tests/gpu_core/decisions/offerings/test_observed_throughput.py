"""The throughput that a deployment's own runs show."""

from typing import Any

import pytest

from gpu_core.decisions.model.attempts import Attempt, EndReason, RunRecord
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.offerings.observed_throughput import shown_by
from gpu_core.testing.builders.attempts import at, make_attempt, make_run

Record = tuple[RunRecord, list[Attempt]]


def ran(hours: float, deployment: str = "train/gpu", **fields: Any) -> Record:
    """A completed run of one attempt, so many hours long."""
    values = {"released_at": at(hours), "end_reason": EndReason.COMPLETED}
    return make_run(deployment=deployment), [make_attempt(**(values | fields))]


def test_throughput_is_the_amount_by_the_time_of_work() -> None:
    found = shown_by([ran(1), ran(2), ran(4, deployment="other/gpu")], "train/gpu", 7_200)
    assert found.observed.units_per_s == (2, 1)
    assert (found.observed.hardware.gpu.name, found.observed.hardware.gpus) == ("a10g", 1)
    assert found.reason("images") == "2 runs of train/gpu on 1 × a10g: 1 to 2 images per second"


def test_work_that_was_done_again_counts_once() -> None:
    """Two hours, of which one was saved, and one more: two hours of work."""
    preempted = make_attempt(
        released_at=at(2), checkpointed_at=at(1), end_reason=EndReason.PREEMPTED
    )
    (run, attempts) = ran(4, admitted_at=at(3), number=2)
    found = shown_by([(run, [preempted, *attempts])], "train/gpu", 7_200)
    assert found.observed.units_per_s == (1,)
    assert found.reason("tokens") == "1 run of train/gpu on 1 × a10g: 1 tokens per second"


def test_the_hardware_with_most_runs_counts_then_the_last_one() -> None:
    a10g, t4 = ran(1), ran(1, gpu_type="t4")
    for records, want in (([a10g, t4, t4], "t4"), ([t4, a10g], "a10g"), ([t4, a10g, t4], "t4")):
        assert shown_by(records, "train/gpu", 1).observed.hardware.gpu.name == want
    assert shown_by([a10g, t4, a10g, t4], "train/gpu", 1).observed.hardware.gpu.name == "t4"


def test_the_newest_twenty_runs_count() -> None:
    found = shown_by([ran(2)] * 5 + [ran(1)] * 20, "train/gpu", 3_600)
    assert found.observed.units_per_s == (1,) * 20


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"end_reason": EndReason.FAILED}, id="failed"),
        pytest.param({"released_at": None, "end_reason": None}, id="still running"),
        pytest.param({"gpu_type": None, "gpu_ids": ()}, id="no GPU"),
        pytest.param({"gpu_type": "tpu"}, id="an unknown GPU"),
        pytest.param({"released_at": at(0)}, id="no time"),
        pytest.param(
            {"shares": tuple(NodeShare(node=n, gpu_ids=("0",)) for n in "ab")}, id="two nodes"
        ),
        pytest.param(
            {"shares": (NodeShare(node="a", gpu_ids=("0",), share_milli=500),)}, id="half a GPU"
        ),
    ],
)
def test_what_says_nothing(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="has no completed run"):
        shown_by([ran(1, **fields)], "train/gpu", 1)
