"""Which ends an outage explains that the worker saw."""

from datetime import UTC, datetime, timedelta

import pytest

from gpu_core.decisions.attempts.excused_ends import EndSigns, Outage, excuse_of, seen_away

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
API = (0, 50)
NO_CONNECTION = "httpx.ConnectError: All connection attempts failed"
NO_SPACE = "OSError: [Errno 28] No space left on device"
WANT = "Prefect's API was unavailable from 12:00:00 to 12:00:50 UTC"


def second(number):
    return NOON + timedelta(seconds=number)


def signs(state, ended_s=40, **changes):
    values = {
        "prefect_state_type": state,
        "state_message": None,
        "has_begun": True,
        "began_at": second(-600),
        "ended_at": second(ended_s),
        "exit_code": 1,
    }
    return EndSigns(**(values | changes))


def excuse(found, api=API, disk=None):
    outages = [
        Outage(part=part, began_at=second(span[0]), seen_at=second(span[1]))
        for part, span in (("api", api), ("disk", disk))
        if span is not None
    ]
    return excuse_of(found, outages)


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(
            signs("RUNNING"), WANT, id="nothing could be reported: it ended in the outage"
        ),
        pytest.param(signs("PENDING", has_begun=False), WANT, id="its flow could not begin in it"),
        pytest.param(
            signs("CRASHED", 60, has_begun=False, output=("websockets.InvalidMessage", "exit")),
            WANT,
            id="its engine ended for want of the API, in other words",
        ),
        pytest.param(
            signs("CRASHED", 300, has_begun=False), None, id="it did not begin, long after it"
        ),
        pytest.param(signs("RUNNING", 58), WANT, id="it ended as the server came back"),
        pytest.param(
            signs("RUNNING", 70), None, id="it ended after it, and reported nothing of why"
        ),
        pytest.param(signs("RUNNING", -20), None, id="it ended before it"),
        pytest.param(
            signs("FAILED", 100, state_message=f"Encountered an exception: {NO_CONNECTION}"),
            WANT,
            id="its request was repeated for a minute, and failed",
        ),
        pytest.param(
            signs("CRASHED", 100, output=("Traceback", NO_CONNECTION, "exit")), WANT, id="output"
        ),
        pytest.param(
            signs("FAILED", 300, state_message=NO_CONNECTION), None, id="long after the outage"
        ),
        pytest.param(
            signs("CRASHED", output=(NO_CONNECTION, *["work"] * 100)),
            None,
            id="reported long before",
        ),
        pytest.param(
            signs("FAILED", state_message="ValueError: the data set is empty"),
            None,
            id="it failed by itself while the API was away",
        ),
        pytest.param(signs("CRASHED"), None, id="Prefect heard that it crashed, and not why"),
        pytest.param(signs("RUNNING", exit_code=-9), None, id="killed for want of memory"),
        pytest.param(signs("RUNNING", exit_code=137), None, id="killed in its container"),
        pytest.param(signs("COMPLETED"), None, id="done"),
        pytest.param(signs("SCHEDULED"), None, id="back in line"),
        pytest.param(
            signs("FAILED", 100, state_message=NO_CONNECTION, began_at=second(80)),
            None,
            id="it began after the outage",
        ),
    ],
)
def test_an_end_is_excused_where_outage_and_signs_come_together(found, want):
    assert excuse(found) == want


@pytest.mark.parametrize("state", ["FAILED", "CRASHED", "RUNNING", "PENDING"])
def test_who_only_claims_an_outage_is_charged(state):
    """The worker reached the API all the time."""
    found = signs(state, state_message=NO_CONNECTION, output=(NO_CONNECTION,), has_begun=False)
    assert excuse(found, api=None) is None
    assert excuse(found, api=(-400, -300)) is None


@pytest.mark.parametrize(
    ("changes", "disk", "want"),
    [
        pytest.param({}, (30, 35), "the disk was full from 12:00:30", id="no output is written"),
        pytest.param({"output": (NO_SPACE,)}, None, None, id="the worker saw room"),
        pytest.param({}, (-500, -400), None, id="the disk was full long before"),
        pytest.param(
            {"output": (NO_SPACE,), "has_begun": True}, (30, 35), None, id="the flow filled it"
        ),
        pytest.param(
            {"state_message": "NotEnoughSpace: the disk of the store", "has_begun": True},
            (30, 35),
            "the disk was full from 12:00:30",
            id="there was no room for a checkpoint",
        ),
        pytest.param({"is_folder_gone": True}, None, "its run directory was deleted", id="deleted"),
        pytest.param({"is_folder_gone": True, "has_begun": True}, None, None, id="by the flow"),
        pytest.param(
            {"is_folder_gone": True, "ended_at": second(-600) + timedelta(minutes=16)},
            None,
            None,
            id="by a command that never began the flow, after long work",
        ),
    ],
)
def test_a_machine_that_cannot_be_written_to_excuses_who_did_not_begin(changes, disk, want):
    found = excuse(signs("CRASHED", **({"has_begun": False} | changes)), api=None, disk=disk)
    assert found is None if want is None else (found or "").startswith(want)


def test_an_outage_goes_on_while_it_is_seen_and_a_later_one_is_another():
    outages = ()
    for at_s in (0, 5, 10, 60, 61):
        outages = seen_away(outages, "api", second(at_s))
    outages = seen_away(outages, "disk", second(62))
    spans = [(o.part, o.began_at, o.seen_at) for o in outages]
    assert spans == [
        ("api", second(0), second(10)),
        ("api", second(60), second(61)),
        ("disk", second(62), second(62)),
    ]


def test_what_was_seen_a_day_ago_is_forgotten():
    outages = seen_away((), "api", NOON)
    assert [o.began_at for o in seen_away(outages, "api", NOON + timedelta(days=2))] != [NOON]
    assert len(seen_away(outages, "api", NOON + timedelta(days=2))) == 1
