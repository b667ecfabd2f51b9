"""The report of a run in a pod on its steps: labels of its flow run in Prefect, once a minute.

They are sent whether or not a step was made: only a report that has just come says that none was.
The first rank sends them, with the reports of the other ranks in its pod and, where one of them is
stuck, with their stacks.

The first rank of each other pod of a gang sends one label of its own, and only while its ranks
are quiet: Prefect reads and writes all labels of a run at once, so that one sender can undo what
another sends at the same moment. What is lost so comes a minute later.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpu_core.decisions.checkpoints.report_labels import Label

PREFIX = "prefect-gpu.progress."
REPORTED_AT = "reported_at"
PEERS = "peers"
STACKS = "stacks"
POD = "pod."
"""Before the lowest rank of another pod, whose ranks the label describes."""

EVERY_S = 60.0

LATE = timedelta(seconds=3 * EVERY_S)
"""A report that is older is unknown: the run may have made steps since that it could not report."""

QUIET_S = 60.0
"""Without progress for so long the ranks of another pod report."""

MOST_PODS = 256

MOST_RANKS = 16
"""Of a pod: as many as a node has GPUs. Further ranks are left out."""
LONGEST_STACK = 2000
"""Characters of the stacks of a rank, which begin with its main thread."""
SHORTEST_STACK = 700
"""Of a gang with many ranks: the six innermost frames, by which a rank is judged."""
MOST_STACKS = 256_000
"""Characters of the stacks of all ranks, where these are not shorter than that: each sender and the
worker read all labels of a run at once, which with 512 ranks were 1 MB."""

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
        PEERS: _json(_plain_reports(peers)),
        STACKS: _json(_bounded(stacks or {}, report)),
    }
    return {f"{PREFIX}{name}": _label(value) for name, value in values.items()}


def pod_labels(
    reports: Sequence[Mapping[str, object]], now: datetime, stacks: Mapping[int, str]
) -> dict[str, Label]:
    """The label that another pod of a gang sends while its ranks are quiet.

    Args:
        reports: The fields of the `ProgressReport` of each of its ranks, the lowest first.
        now: By the clock that their moments were read from.
        stacks: Of the ranks that have answered.
    """
    value = {
        REPORTED_AT: now.isoformat(),
        PEERS: _plain_reports(reports),
        STACKS: _bounded(stacks, reports[0]),
    }
    return {_pod_label(reports[0]): json.dumps(value)}


def no_pod_labels(report: Mapping[str, object]) -> dict[str, Label]:
    """The same label once its ranks make progress again: it says nothing."""
    return {_pod_label(report): ""}


def _pod_label(report: Mapping[str, object]) -> str:
    return f"{PREFIX}{POD}{report['rank']}"


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
    own = {name: v for name, v in found.items() if name not in (REPORTED_AT, PEERS, STACKS)}
    first = _as_of_now(own, attempt_id, reported_at, now)
    if first is None:
        return ()
    peers = _reports(_parsed(found.get(PEERS)), attempt_id, reported_at, now)
    others = (each for pod in _pods(found, attempt_id, now) for each in pod.reports)
    return (first, *peers, *others)


def stacks_in(labels: Mapping[str, object], attempt_id: str, now: datetime) -> dict[int, str]:
    """The stacks that the ranks of this attempt have just sent, by rank; empty: none has."""
    if not progress_values(labels, attempt_id, now):
        return {}
    found = _found(labels)
    stacks = _stacks(_parsed(found.get(STACKS)))
    for pod in _pods(found, attempt_id, now):
        stacks |= pod.stacks
    return stacks


@dataclass(frozen=True, slots=True)
class _Pod:
    """The latest report of another pod of the gang."""

    reports: tuple[Values, ...]
    stacks: dict[int, str]


def _pods(found: Values, attempt_id: str, now: datetime) -> list[_Pod]:
    names = sorted(name for name in found if name.startswith(POD))
    pods = (_pod(_parsed(found[name]), attempt_id, now) for name in names[:MOST_PODS])
    return [pod for pod in pods if pod is not None]


def _pod(value: object, attempt_id: str, now: datetime) -> _Pod | None:
    """The report in a label; None if it is late, of another attempt, or malformed."""
    if not isinstance(value, dict):
        return None
    reported_at = _moment(value.get(REPORTED_AT))
    if reported_at is None or abs(now - reported_at) > LATE:
        return None
    reports = _reports(value.get(PEERS), attempt_id, reported_at, now)
    return _Pod(reports, _stacks(value.get(STACKS))) if reports else None


def _reports(
    rows: object, attempt_id: str, reported_at: datetime, now: datetime
) -> tuple[Values, ...]:
    if not isinstance(rows, list):
        return ()
    values = [each for each in rows[:MOST_RANKS] if isinstance(each, dict)]
    seen = (_as_of_now(each, attempt_id, reported_at, now) for each in values)
    return tuple(each for each in seen if each is not None)


def _stacks(value: object) -> dict[int, str]:
    if not isinstance(value, dict):
        return {}
    return {
        int(rank): text[:LONGEST_STACK]
        for rank, text in [*value.items()][:MOST_RANKS]
        if rank.isdecimal() and isinstance(text, str)
    }


def _bounded(stacks: Mapping[int, str], report: Mapping[str, object]) -> dict[int, str]:
    """Cut, so that those of all ranks of the gang together are no more than they may be."""
    ranks = report.get("ranks")
    each = MOST_STACKS // max(1, ranks if isinstance(ranks, int) else 1)
    length = min(LONGEST_STACK, max(SHORTEST_STACK, each))
    return {rank: stacks[rank][:length] for rank in sorted(stacks)[:MOST_RANKS]}


def _plain_reports(reports: Sequence[Mapping[str, object]]) -> list[Values]:
    return [{name: _plain(v) for name, v in each.items()} for each in reports[:MOST_RANKS]]


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
    """The moment in a text; None if it is not a moment with a time zone."""
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
