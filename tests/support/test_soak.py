"""What counts as growth in a long story, and what a busy machine may do."""

from dataclasses import replace

import pytest

from tests.support.soak import Sample, growth

FIRST = Sample(memory_mib=200.0, connections=30, work=10, prefect=100, kubernetes=50)


def after(minutes: int, **changes: float) -> Sample:
    """The sample after so many minutes of 60 cycles and starts, with 5 and 2 requests for each."""
    work = FIRST.work + 60 * minutes
    usual = replace(FIRST, work=work, prefect=5 * work, kubernetes=2 * work)
    return replace(usual, **changes)


STEADY = [after(minutes) for minutes in range(18)]


@pytest.mark.parametrize(
    ("samples", "want"),
    [
        pytest.param(STEADY, [], id="steady"),
        pytest.param(
            [*STEADY[:12], *(after(n, work=STEADY[11].work + 6 * (n - 11),
                                   prefect=STEADY[11].prefect + 30 * (n - 11),
                                   kubernetes=STEADY[11].kubernetes + 12 * (n - 11))
                             for n in range(12, 18))],
            [],
            id="a tenth of the work, on a machine that others use",
        ),
        pytest.param(
            [after(n, memory_mib=200.0 + 5 * n) for n in range(18)], ["MiB"], id="memory"
        ),
        pytest.param(
            [after(n, connections=30 + 2 * n) for n in range(18)], ["connections"], id="connections"
        ),
        pytest.param(
            [after(n, prefect=5 * 60 * n + 20 * n * n) for n in range(18)], ["to Prefect"],
            id="each start asks Prefect more than the one before",
        ),
        pytest.param(
            [after(n, kubernetes=2 * 60 * n + 20 * n * n) for n in range(18)], ["to the API"],
            id="and the cluster",
        ),
        pytest.param(
            [after(n, memory_mib=120.0 if n == 0 else 200.0) for n in range(18)], [],
            id="it fills its caches at first",
        ),
    ],
)  # fmt: skip
def test_what_grows_is_named(samples: list[Sample], want: list[str]) -> None:
    assert [fault.partition(":")[0] for fault in growth(samples, is_long=True).faults] == want


def test_a_short_story_judges_no_requests_to_the_cluster() -> None:
    """Most containers start in its first third and end in its last one."""
    samples = [after(n, kubernetes=2 * 60 * n + 20 * n * n) for n in range(18)]
    assert growth(samples, is_long=False).faults == ()
