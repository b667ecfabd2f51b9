"""What is wrong with a chaos story, by the journals and locks of its runs and by Prefect's states.

Nothing here reads the ledger: what it says is what these stories doubt. The events are those of
`tests/end_to_end/chaos_body.py`.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any

Event = Mapping[str, Any]

TERMINAL = frozenset({"COMPLETED", "FAILED", "CRASHED", "CANCELLED"})


class Fate(StrEnum):
    """How a run ends if nothing is charged to it that is not its own."""

    COMPLETES = "completes"
    FAILS = "fails"
    """It raises in every attempt, until no failure is left to it."""
    CANCELLED = "cancelled"
    """A person cancels it at some moment; it may be over before that."""
    WITHOUT_QUEUE = "has lost its queue"
    """Its pool was deleted, and its queue with it: what runs may end, and nothing starts again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosRun:
    """One run, and what is expected of it.

    Attributes:
        failures: How many of its bodies raise.
        max_failures: The charged failure with this number is its last.
        saves: Whether it keeps checkpoints.
    """

    flow_run_id: str
    name: str
    fate: Fate = Fate.COMPLETES
    failures: int = 0
    max_failures: int = 1
    saves: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The time from the begin of a fault until all worked again, as seconds since the epoch."""

    what: str
    began_s: float
    ended_s: float
    is_outage: bool = True
    """Whether Prefect's API or the ledger was unavailable."""


def violations(
    runs: Sequence[ChaosRun],
    events: Iterable[Event],
    states: Mapping[str, Sequence[Mapping[str, Any]]],
    spans: Sequence[Span] = (),
    *,
    min_runtime_s: float = 0,
) -> dict[str, list[str]]:
    """What must not have been, by flow run? Empty, if all is well.

    Args:
        runs: All runs of the story.
        events: The journal, in the order in which it was written.
        states: Of each run Prefect's states, the first one first.
        spans: The faults.
        min_runtime_s: How long a body runs at least before another run may take its GPUs.
    """
    by_run: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_run[event["run"]].append(event)
    found = {}
    for run in runs:
        of_run = by_run.pop(run.flow_run_id, [])
        of_prefect = states.get(run.flow_run_id, ())
        is_preemptible = run.fate is not Fate.CANCELLED
        wrong = [
            *_of_bodies(of_run),
            *_of_repetitions(of_run, of_prefect, spans),
            *(_of_checkpoints(of_run) if run.saves else ()),
            *(_of_min_runtime(of_run, of_prefect, min_runtime_s) if is_preemptible else ()),
            *_of_end(run, of_run, of_prefect, spans),
        ]
        if wrong:
            found[run.flow_run_id] = wrong
    return found | {run: ["a run that nobody submitted"] for run in by_run}


def _of_bodies(events: Sequence[Event]) -> Iterator[str]:
    """One body for each attempt, one after the other, on GPUs of its own."""
    yield from (f"attempt {e['attempt']}: {e['message']}" for e in events if e["what"] == "taken")
    begins = [event for event in events if event["what"] == "begin"]
    for earlier, later in pairwise(begins):
        if later["attempt"] == earlier["attempt"]:
            yield f"attempt {later['attempt']} executed the body more than once"
        elif later["attempt"] < earlier["attempt"]:
            yield f"attempt {later['attempt']} began after attempt {earlier['attempt']}"
    ids: dict[int, set[str]] = defaultdict(set)
    for event in events:
        ids[event["attempt"]].add(event["attempt_id"])
    yield from (f"attempt {n} was started under {len(i)} ids" for n, i in ids.items() if len(i) > 1)


def _of_repetitions(
    events: Sequence[Event], states: Sequence[Mapping[str, Any]], spans: Sequence[Span]
) -> Iterator[str]:
    """Work that is done is not done again, unless a fault kept its end from being reported.

    A body that reaches its end after Prefect has rescheduled its run, in the moment before SIGTERM
    reaches the process, is one that was stopped: Prefect never hears of that end.
    """
    rescheduled_s = [_epoch_s(s["timestamp"]) for s in states if s["name"] == "AwaitingRetry"]
    turns = [event for event in events if event["what"] in ("begin", "end")]
    began_s = 0.0
    for earlier, later in pairwise(turns):
        if earlier["what"] == "begin":
            began_s = earlier["at"]
            continue
        was_stopped = any(began_s < at < earlier["at"] for at in rescheduled_s)
        if not was_stopped and not _touches(spans, earlier["at"] - 1, later["at"]):
            yield f"attempt {later['attempt']} began after attempt {earlier['attempt']} was done"


def _of_checkpoints(events: Sequence[Event]) -> Iterator[str]:
    """A body begins with what was saved last."""
    saved = 0
    for event in events:
        if event["what"] == "begin" and event["step"] < saved:
            yield f"attempt {event['attempt']} began at step {event['step']}, and {saved} was saved"
        if event["what"] == "saved":
            saved = event["step"]


def _of_min_runtime(
    events: Sequence[Event], states: Sequence[Mapping[str, Any]], min_runtime_s: float
) -> Iterator[str]:
    """A run that has just started is not ended for another one, counted from Running."""
    runnings_s = [_epoch_s(s["timestamp"]) for s in states if s["type"] == "RUNNING"]
    for event in events:
        since_s = max((at for at in runnings_s if at <= event["at"]), default=None)
        if event["what"] != "stopped" or since_s is None:
            continue
        ran_s = event["at"] - since_s
        if ran_s < min_runtime_s:
            yield f"attempt {event['attempt']} was stopped {ran_s:.1f} s after it was Running"


def _of_end(
    run: ChaosRun,
    events: Sequence[Event],
    states: Sequence[Mapping[str, Any]],
    spans: Sequence[Span],
) -> Iterator[str]:
    types = [state["type"] for state in states]
    if not types or types[-1] not in TERMINAL:
        yield f"never came to an end; it is {states[-1]['name'] if states else 'not in Prefect'}"
        return
    # Prefect's `flow-run execute` may reschedule a run that has just completed when SIGTERM reaches
    # it; the worker puts the state back. What must not come after the end is another attempt.
    after = types[types.index("COMPLETED") :] if "COMPLETED" in types else []
    if set(after) - {"COMPLETED", "SCHEDULED"} or (after and after[-1] != "COMPLETED"):
        yield "went on after it had completed"
    what = [event["what"] for event in events]
    raised, is_done = what.count("raised"), "end" in what
    charged = raised - _failures_of_preempted(events, states)
    if types[-1] == "COMPLETED" and not is_done:
        yield "is Completed, and no body of it came to its end"
    wrongly_ended = f"is {types[-1]} after {raised} failures of its own: {states[-1]['message']}"
    match run.fate:
        case Fate.COMPLETES if types[-1] != "COMPLETED":
            yield wrongly_ended
        case Fate.COMPLETES if raised > run.failures + _outages(spans):
            yield f"raised {raised} times"
        case Fate.FAILS if types[-1] != "FAILED" or raised < run.max_failures:
            yield wrongly_ended
        case Fate.FAILS if charged > run.max_failures + _outages(spans):
            yield f"failed {charged} times, where {run.max_failures} are allowed"
        case Fate.CANCELLED if types[-1] not in ("CANCELLED", "COMPLETED"):
            yield wrongly_ended


def _failures_of_preempted(events: Sequence[Event], states: Sequence[Mapping[str, Any]]) -> int:
    """How many bodies raised in an attempt that was preempted? That is not charged to the run."""
    names = ("Pending", "Preempted")
    turns = [(_epoch_s(s["timestamp"]), s["name"]) for s in states if s["name"] in names]
    turns += [(event["at"], "raised") for event in events if event["what"] == "raised"]
    ordered = [name for _, name in sorted(turns)]
    return sum(pair == ("raised", "Preempted") for pair in pairwise(ordered))


def _outages(spans: Iterable[Span]) -> int:
    """In how many faults may a failure not have been heard? It is excused then."""
    return sum(span.is_outage for span in spans)


def _touches(spans: Iterable[Span], since_s: float, until_s: float) -> bool:
    return any(span.began_s < until_s and span.ended_s > since_s for span in spans)


def histories(
    runs: Iterable[ChaosRun],
    events: Sequence[Event],
    states: Mapping[str, Sequence[Mapping[str, Any]]],
    spans: Sequence[Span],
    only: Collection[str],
) -> str:
    """What happened to these runs, with the faults in between, for people: a line for each event.

    Args:
        runs: All runs.
        events: The journal.
        states: Of each run Prefect's states.
        spans: The faults.
        only: Whose history.
    """
    began_s = min((event["at"] for event in events), default=0.0)
    faults = [(span.began_s, f"-- {span.what}") for span in spans]
    faults += [(span.ended_s, f"-- over: {span.what}") for span in spans]
    lines = []
    for run in runs:
        if run.flow_run_id not in only:
            continue
        lines.append(f"{run.name} ({run.flow_run_id}): {run}")
        moments = [*faults]
        moments += [(e["at"], _reported(e)) for e in events if e["run"] == run.flow_run_id]
        moments += [
            (_epoch_s(state["timestamp"]), f"   Prefect: {state['name']}: {state['message']}")
            for state in states.get(run.flow_run_id, ())
        ]
        lines += [f"  {at - began_s:8.2f} s  {text}" for at, text in sorted(moments)]
    return "\n".join(lines)


def _reported(event: Event) -> str:
    where = f"attempt {event['attempt']}, process {event['pid']}, {','.join(event['devices'])}"
    more = " ".join(str(event[key]) for key in ("step", "message") if key in event)
    return f"   {event['what']} {more}  ({where})"


def _epoch_s(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).astimezone(UTC).timestamp()
