"""Which policy fits: the shortest mean wait that large jobs do not pay for."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.simulation.policies.fitting import MOST_GANG_WAIT, fitting
from gpu_core.decisions.simulation.policies.metrics import Metrics, Spread


def spread(mean, p95):
    return None if mean is None else Spread(mean=mean, p50=mean, p95=p95, p99=p95)


def replayed(wait_s, gang_p95_s=None, finished=10):
    """The metrics that count; of the others none is read."""
    others = dict.fromkeys((field.name for field in fields(Metrics)), 0)
    gang_wait_s = spread(gang_p95_s, gang_p95_s)
    return Metrics(
        **others
        | {"finished": finished, "wait_s": spread(wait_s, wait_s), "gang_wait_s": gang_wait_s}
    )


@pytest.mark.parametrize(
    ("policies", "want", "want_reference"),
    [
        pytest.param(
            {"fifo": replayed(600, 100), "greedy": replayed(300, 400), "auto": replayed(400, 110)},
            ("auto",),
            "fifo",
            id="the shortest wait is paid for by large jobs",
        ),
        pytest.param(
            {"a": replayed(600, 90), "b": replayed(300, 99), "c": replayed(200, 100)},
            ("b",),
            "a",
            id="without fifo the one under which large jobs wait for the shortest",
        ),
        pytest.param(
            {"a": replayed(600), "b": replayed(300)}, ("b",), None, id="there are no large jobs"
        ),
        pytest.param(
            {"a": replayed(300), "b": replayed(302), "c": replayed(304)},
            ("a", "b"),
            None,
            id="less than a hundredth is no difference",
        ),
        pytest.param(
            {"a": replayed(600, finished=10), "b": replayed(0, finished=9)},
            ("a",),
            None,
            id="not all jobs finish",
        ),
        pytest.param(
            {"a": replayed(600, 100), "b": replayed(300)},
            ("a",),
            "a",
            id="the jobs that finish are others",
        ),
        pytest.param(
            {"fifo": replayed(0, 0), "b": replayed(0, 0)}, ("fifo", "b"), "fifo", id="none waits"
        ),
    ],
)
def test_which_policies_fit(policies, want, want_reference):
    found = fitting(policies)
    assert found is not None
    assert (found.policies, found.reference) == (want, want_reference)


@pytest.mark.parametrize(
    "policies",
    [
        pytest.param({}, id="none"),
        pytest.param({"a": replayed(10)}, id="one"),
        pytest.param({"a": replayed(None), "b": replayed(None)}, id="nothing finishes"),
    ],
)
def test_there_is_nothing_to_compare(policies):
    assert fitting(policies) is None


def test_the_sentence_names_the_policy_its_wait_and_the_condition():
    found = fitting({"fifo": replayed(600, 100), "auto": replayed(400, 110)})
    assert found is not None
    assert found.text == (
        "Shortest mean wait, with jobs over 8 GPUs at most 10% later (p95) than under 'fifo': "
        "'auto', 6m 40s."
    )


waits = st.floats(0, 1e6)


NAMES = st.sampled_from(["fifo", "a", "b", "c"])


@given(st.dictionaries(NAMES, st.tuples(waits, waits), min_size=2))
def test_no_policy_that_fits_has_a_shorter_one_beside_it(measured):
    found = fitting({name: replayed(*each) for name, each in measured.items()})
    assert found is not None
    assert found.reference is not None
    most_s = measured[found.reference][1] * MOST_GANG_WAIT
    allowed = {name for name, (_, p95_s) in measured.items() if p95_s <= most_s}
    assert set(found.policies) <= allowed
    assert found.mean_wait_s == min(measured[name][0] for name in allowed)
