"""What a run in a pod reports of its steps: labels of its flow run in Prefect, once a minute.

They are sent whether or not a step was made: only a report that has just come says that none was.
The first rank sends them, with the reports of the other ranks in its pod and, where one of them is
stuck, with their stacks. If each rank sent labels, one could undo those of another.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from gpu_core.decisions.checkpoints.report_labels import Label

PREFIX = "prefect-gpu.progress."
REPORTED_AT = "reported_at"
PEERS = "peers"
STACKS = "stacks"

EVERY_S = 60.0

LATE = timedelta(seconds=3 * EVERY_S)
"""A report that is older is unknown: the run may have made steps since that it could not report."""

MOST_RANKS = 16
"""Of a pod: as many as a node has GPUs. Further ranks are left out."""
LONGEST_STACK = 2000
"""Characters of the stacks of a rank, from their end: faulthandler writes the main thread last."""

# What reports and stacks of all ranks take at most, with room for JSON.
_LONGEST_LABEL = 2 * MOST_RANKS * LONGEST_STACK

Values = dict[str, object]


def progress_labels(
    report: Mapping[str, object],
    now: datetime,
    peers: Sequence[Mapping[str, object]] = (),
    stacks: Mapping[int, str] | None = None,
) -> dict[str, Label]:
    """The labels that carry these reports; what is unknown is an empty text, or it would stay.

    Args:
        report: The fields of the first rank's `ProgressReport`.
        now: By the clock that its moments were read from.
        peers: Those of other ranks.
        stacks: Of the ranks that have answered.
    """
    values: Mapping[str, object] = {
        **report,
        REPORTED_AT: now,
        PEERS: _json([{k: _plain(v) for k, v in each.items()} for each in peers[:MOST_RANKS]]),
        STACKS: _json(_bounded(stacks or {})),
    }
    return {f"{PREFIX}{name}": _label(value) for name, value in values.items()}


def progress_values(
    labels: Mapping[str, object], attempt_id: str, now: datetime
) -> tuple[Values, ...]:
    """The fields of the reports that this attempt has just made, the first rank's first.

    Its last progress counts from now by how long it was ago when it was reported, so that a clock
    that is wrong makes no run hang.

    Returns:
        Empty: there is none, or it is late.
    """
    found = _found(labels)
    reported_at = _moment(found.get(REPORTED_AT))
    if reported_at is None or abs(now - reported_at) > LATE:
        return ()
    first = {name: v for name, v in found.items() if name not in (REPORTED_AT, PEERS, STACKS)}
    peers = _parsed(found.get(PEERS))
    rows = (
        [first, *(each for each in peers if isinstance(each, dict))]
        if isinstance(peers, list)
        else [first]
    )
    seen = [_as_of_now(each, attempt_id, reported_at, now) for each in rows[: MOST_RANKS + 1]]
    return () if seen[0] is None else tuple(each for each in seen if each is not None)


def stacks_in(labels: Mapping[str, object], attempt_id: str, now: datetime) -> dict[int, str]:
    """The stacks that the ranks of this attempt have just sent, by rank; empty: none has."""
    if not progress_values(labels, attempt_id, now):
        return {}
    stacks = _parsed(_found(labels).get(STACKS))
    if not isinstance(stacks, dict):
        return {}
    return {
        int(rank): text[-LONGEST_STACK:]
        for rank, text in [*stacks.items()][:MOST_RANKS]
        if rank.isdecimal() and isinstance(text, str)
    }


def _bounded(stacks: Mapping[int, str]) -> dict[int, str]:
    return {rank: stacks[rank][-LONGEST_STACK:] for rank in sorted(stacks)[:MOST_RANKS]}


def _found(labels: Mapping[str, object]) -> Values:
    return {
        name.removeprefix(PREFIX): value
        for name, value in labels.items()
        if name.startswith(PREFIX) and value != ""
    }


def _as_of_now(
    values: Values, attempt_id: str, reported_at: datetime, now: datetime
) -> Values | None:
    progressed_at = _moment(values.get("progressed_at"))
    if values.get("attempt_id") != attempt_id or progressed_at is None:
        return None
    try:
        ago = max(timedelta(0), reported_at - progressed_at)
        return values | {"progressed_at": (now - ago).isoformat()}
    except OverflowError:
        return None


def _moment(value: object) -> datetime | None:
    """None: it is no moment with a zone."""
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return None if moment.tzinfo is None else moment


def _parsed(value: object) -> object:
    if not isinstance(value, str) or len(value) > _LONGEST_LABEL:
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _json(value: Sequence[object] | Mapping[int, str]) -> str:
    return json.dumps(value) if value else ""


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value


def _label(value: object) -> Label:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, str | int | float | bool) else str(value)
