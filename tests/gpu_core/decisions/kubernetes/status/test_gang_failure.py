"""Whether a pod of a gang failed because another node had fallen silent."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.kubernetes.status.gang_failure import silent_partner

FAILED_AT = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)


def pod(node):
    """A pod of the gang, there or still to be placed."""
    return {"spec": {} if node is None else {"nodeName": node}}


def node(ready, since_s):
    """A node whose Ready turned so many seconds after the failure."""
    since = FAILED_AT + timedelta(seconds=since_s)
    reported = {
        "type": "Ready",
        "status": ready,
        "lastTransitionTime": f"{since:%Y-%m-%dT%H:%M:%SZ}",
    }
    return {"status": {"conditions": [reported]}}


WELL = node("True", -3600)


@pytest.mark.parametrize(
    ("partner", "want"),
    [
        pytest.param(WELL, False, id="well all the time: it failed by itself"),
        pytest.param(node("Unknown", -5), True, id="silent before"),
        pytest.param(node("Unknown", 45), True, id="silent before, and noticed after the grace"),
        pytest.param(node("False", 45), True, id="it says itself that it is not ready"),
        pytest.param(node("Unknown", 61), False, id="silent too late to be the reason"),
        pytest.param(None, True, id="gone"),
        pytest.param(node("True", 90), True, id="it was silent, and came back"),
        pytest.param(node("True", 301), False, id="it came back hours later, from another silence"),
        pytest.param({"status": {}}, False, id="it has never said anything"),
    ],
)
def test_a_failure_is_a_partners_if_that_was_silent_by_then(partner, want):
    nodes = {"mine": WELL} if partner is None else {"mine": WELL, "other": partner}
    assert silent_partner(FAILED_AT, [pod("other")], nodes) == ("other" if want else None)


@pytest.mark.parametrize(
    ("failed_at", "partners"),
    [
        pytest.param(FAILED_AT, [], id="it was alone, or the last to end"),
        pytest.param(FAILED_AT, [pod(None)], id="the other was not placed yet"),
        pytest.param(None, [pod("other")], id="it is unknown when it failed"),
    ],
)
def test_without_a_partner_by_then_a_failure_is_its_own(failed_at, partners):
    assert silent_partner(failed_at, partners, {"other": node("Unknown", 0)}) is None


@given(
    st.lists(st.sampled_from(["a", "b", "c", None]), max_size=6), st.sets(st.sampled_from("abc"))
)
def test_any_silent_partner_is_found_and_only_such(names, silent):
    nodes = {name: node("Unknown", 10) if name in silent else WELL for name in "abc"}
    found = silent_partner(FAILED_AT, [pod(name) for name in names], nodes)
    assert found == min(silent & set(names), default=None)
