"""The judge of the chaos stories finds what must not be, and nothing else."""

import pytest

from tests.support.chaos_judge import ChaosRun, Fate, Span, histories, violations

COMPLETED = ("Pending", "Running", "Completed")


def event(what, attempt=1, at=0.0, **more):
    return {
        "what": what,
        "run": "r",
        "attempt": attempt,
        "attempt_id": f"id-{attempt}",
        "pid": 1,
        "devices": ["virtual-0"],
        "at": at,
        **more,
    }


def body(attempt=1, at=0.0, end="end", step=0):
    return [event("begin", attempt, at, step=step), event(end, attempt, at + 1, message="why")]


def judged(events, states=COMPLETED, spans=(), min_runtime_s=0.0, **facts):
    run = ChaosRun(flow_run_id="r", name="r", **facts)
    of_run = [
        {
            "type": {"Pending": "PENDING", "AwaitingRetry": "SCHEDULED"}.get(name, name.upper()),
            "name": name,
            "message": "said Prefect",
            "timestamp": f"1970-01-01T00:00:{number:02}+00:00",
        }
        for number, name in enumerate(states)
    ]
    found = violations([run], events, {"r": of_run}, spans, min_runtime_s=min_runtime_s)
    return found.get("r", [])


FAILED = ("Pending", "Running", "Failed")
PREEMPTED = ("Pending", "Running", "Preempted")
OUTAGE = Span(what="server killed", began_s=0.5, ended_s=1.5)


@pytest.mark.parametrize(
    ("events", "facts"),
    [
        pytest.param(body(), {}, id="a run that completes"),
        pytest.param(
            body(),
            {"states": (*COMPLETED, "AwaitingRetry", "Completed")},
            id="a run that Prefect rescheduled after its end, and that the worker put back",
        ),
        pytest.param(
            [*body(end="stopped"), *body(2, 5)], {}, id="a run that was preempted and goes on"
        ),
        pytest.param(
            [*body(at=1.5), *body(2, 5)],
            {"states": ("Pending", "Running", "AwaitingRetry", "Pending", "Running", "Completed")},
            id="a run that Prefect rescheduled in the moment before its body came to its end",
        ),
        pytest.param(
            [*body(end="raised"), *body(2, 5)],
            {"failures": 1, "max_failures": 2},
            id="a run that fails once and may",
        ),
        pytest.param(
            [*body(end="raised"), *body(2, 5, "raised")],
            {"fate": Fate.FAILS, "failures": 2, "max_failures": 2, "states": FAILED},
            id="a run that fails for good",
        ),
        pytest.param(
            [*body(at=1, end="raised"), *body(2, 5, "raised")],
            {
                "fate": Fate.FAILS,
                "failures": 1,
                "states": ("Pending", "Running", "Failed", "Preempted", *FAILED),
            },
            id="a run that failed as it was preempted, and fails for good",
        ),
        pytest.param(
            body(end="stopped"),
            {"fate": Fate.CANCELLED, "states": ("Running", "Cancelled")},
            id="a run that is cancelled",
        ),
        pytest.param(
            body(end="stopped"),
            {"fate": Fate.WITHOUT_QUEUE, "states": ("Running", "Crashed")},
            id="a run whose pool was deleted",
        ),
        pytest.param(
            [*body(), *body(2, 5)], {"spans": [OUTAGE]}, id="an end that could not be reported"
        ),
        pytest.param(
            [*body(at=4, end="stopped"), *body(2, 9)], {"min_runtime_s": 4.0}, id="stopped in time"
        ),
    ],
)
def test_all_is_well_with(events, facts):
    assert judged(events, **facts) == []


@pytest.mark.parametrize(
    ("events", "facts", "want"),
    [
        pytest.param([], {"states": ("Scheduled",)}, "never came to an end", id="a lost run"),
        pytest.param([], {}, "no body of it came to its end", id="completed without a body"),
        pytest.param(
            [*body(), *body(1, 5)], {"spans": [OUTAGE]}, "executed the body more", id="two bodies"
        ),
        pytest.param([*body(), *body(2, 5)], {}, "began after attempt 1 was done", id="a repeat"),
        pytest.param(
            [*body(at=0.5), *body(2, 5)],
            {"states": ("Pending", "Running", "AwaitingRetry", "Pending", "Running", "Completed")},
            "began after attempt 1 was done",
            id="a run that was rescheduled after its body had come to its end",
        ),
        pytest.param(
            [*body(2, end="stopped"), *body(1, 5)], {}, "began after attempt 2", id="an old attempt"
        ),
        pytest.param(
            [event("begin", step=0), event("taken", message="virtual-0 is held"), event("end")],
            {},
            "virtual-0 is held",
            id="a GPU twice",
        ),
        pytest.param(
            [event("begin", step=0), event("end", attempt_id="other")],
            {},
            "2 ids",
            id="an attempt of two starts",
        ),
        pytest.param(
            [*body(end="stopped"), event("saved", 1, 1, step=4), *body(2, 5, step=3)],
            {"saves": True},
            "4 was saved",
            id="a lost checkpoint",
        ),
        pytest.param(
            [*body(at=4, end="stopped"), *body(2, 9)],
            {"min_runtime_s": 4.5},
            "stopped 4.0 s after it was Running",
            id="stopped too soon",
        ),
        pytest.param(body(end="stopped"), {"states": FAILED}, "after 0 failures", id="a charge"),
        pytest.param(
            body(end="raised"),
            {"fate": Fate.FAILS, "failures": 2, "max_failures": 2, "states": FAILED},
            "after 1 failures",
            id="one charge too many",
        ),
        pytest.param(
            [*body(end="raised"), *body(2, 5, "raised")],
            {"fate": Fate.FAILS, "failures": 1, "max_failures": 1, "states": FAILED},
            "failed 2 times",
            id="a failure that was not charged",
        ),
        pytest.param(
            [*body(end="stopped"), *body(2, 4, "raised"), *body(3, 7, "raised")],
            {"fate": Fate.FAILS, "failures": 1, "states": (*PREEMPTED, *FAILED, *FAILED)},
            "failed 2 times",
            id="a failure that was not charged, after a preemption",
        ),
        pytest.param(
            body(),
            {"states": (*COMPLETED, "AwaitingRetry", "Pending", "Running", "Completed")},
            "went on after it had completed",
            id="a run that goes on",
        ),
    ],
)
def test_the_judge_finds(events, facts, want):
    assert any(want in violation for violation in judged(events, **facts))


def test_a_run_that_was_not_submitted_is_found():
    assert violations([], body(), {}) == {"r": ["a run that nobody submitted"]}


def test_a_history_has_events_states_and_faults_in_their_order():
    run = ChaosRun(flow_run_id="r", name="run-1")
    state = {"name": "Running", "message": "on", "timestamp": "1970-01-01T00:00:00.750+00:00"}
    text = histories([run], body(), {"r": [state]}, [OUTAGE], {"r"})
    whats = ["begin", "-- server killed", "Prefect: Running", "end", "-- over"]
    places = [text.index(what) for what in whats]
    assert places == sorted(places)
    assert histories([run], body(), {}, [], set()) == ""
