"""The load bench's judgment: it sees what is wrong, and nothing where all is well."""

from datetime import timedelta

import pytest

from benchmarks.load import GPUS, judge, most_gpus_at_once, starts_per_minute
from benchmarks.report import percentile
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import NOON, make_attempt


def held(run, begin_s, end_s, *gpus, **fields):
    """An attempt of this run that completed, with the seconds after noon that it held its GPUs."""
    return make_attempt(
        run,
        gpu_ids=gpus or ("GPU-0",),
        admitted_at=NOON + timedelta(seconds=begin_s),
        released_at=NOON + timedelta(seconds=end_s),
        **{"end_reason": EndReason.COMPLETED, **fields},
    )


MANY = tuple(f"GPU-{number}" for number in range(GPUS))


@pytest.mark.parametrize(
    ("attempts", "is_over", "want_faults"),
    [
        pytest.param(
            [held("urgent", 0, 5), held("patient", 5, 9)],
            *(True, []),
            id="a GPU that is passed on at once is fine",
        ),
        pytest.param(
            [held("urgent", 0, 5), held("patient", 5, 9)],
            *(False, ["not every run completed in time"]),
            id="Prefect did not see all of them complete",
        ),
        pytest.param(
            [held("urgent", 0, 5), held("patient", 5, 9, end_reason=EndReason.FAILED)],
            *(True, ["1 attempts completed, not one of each of 2 runs"]),
            id="a run failed",
        ),
        pytest.param(
            [held("urgent", 0, 5), held("urgent", 5, 9, number=2), held("patient", 9, 12)],
            *(True, ["3 attempts completed, not one of each of 2 runs"]),
            id="a run completed twice",
        ),
        pytest.param(
            [held("urgent", 0, 5), held("patient", 4, 9)],
            *(True, ["two attempts at a time held GPU-0"]),
            id="a GPU was held twice",
        ),
        pytest.param(
            [held("urgent", 0, 5, *MANY), held("patient", 4, 9, "GPU-8")],
            *(True, ["9 GPUs were held at once, of 8"]),
            id="more GPUs were held than there are",
        ),
        pytest.param(
            [held("patient", 0, 5), held("urgent", 5, 9)],
            *(True, ["1 times a run was admitted before a more urgent one"]),
            id="the patient run came first",
        ),
    ],
)
def test_what_is_wrong_with_a_load(attempts, is_over, want_faults):
    assert judge(attempts, {"urgent": "critical", "patient": "low"}, is_over=is_over) == want_faults


def test_gpus_are_counted_at_the_busiest_moment():
    attempts = [held("a", 0, 5, "GPU-0"), held("b", 1, 3, "GPU-1"), held("c", 3, 9, "GPU-1")]
    assert most_gpus_at_once(attempts) == 2


def test_starts_are_counted_between_the_first_and_the_last():
    assert starts_per_minute([held("a", 0, 1), held("b", 10, 11), held("c", 20, 21)]) == 6
    assert starts_per_minute([held("a", 0, 1)]) is None


@pytest.mark.parametrize(
    ("share", "want"),
    [
        pytest.param(0.5, 2, id="half of four values are at most the second"),
        pytest.param(0.95, 4, id="95% of four values need all of them"),
        pytest.param(0.25, 1, id="a quarter is the smallest"),
    ],
)
def test_percentiles_are_measured_values(share, want):
    assert percentile([3, 1, 4, 2], share) == want
