"""The ends of attempts that an outage of the platform explains, as the worker itself saw it.

A flow that reports a failed connection proves nothing: the service may be its own. An outage alone
proves nothing either: a flow may fail by itself while Prefect's API is unavailable. An end is
excused where both coincide, or where the outage precedes the start of the flow.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

Part = Literal["api", "disk"]

_NAMES: dict[Part, str] = {"api": "Prefect's API was unavailable", "disk": "the disk was full"}

# The worker asks every second; a request that gets no answer takes up to five.
_UNNOTICED = timedelta(seconds=10)

# Prefect's client repeats a request five times, 2 to 32 s apart: an error ends its process a minute
# after the outage started, and reporting it to Prefect takes as long again.
_ECHO = timedelta(seconds=120)

# An engine that begins its flow at all has started it by then, also on a busy machine.
_STARTS = timedelta(minutes=15)

# What is older explains no end that is still to be judged.
_KEPT = timedelta(days=1)

# A traceback with its cause; what a flow wrote long before says nothing of its end.
_READ_LINES = 60

# Prefect 3.8: errors of httpx that its client gives up on, and a server without its database.
_NO_API = re.compile(
    r"\b(?:Connect|Read|Write|Pool)(?:Error|Timeout)\b|\bRemoteProtocolError\b"
    r"|All connection attempts failed|Failed to reach API|Server error '5\d\d"
)
# `checkpointing()` refuses to begin on a full disk, before the work of the flow writes anything.
_NO_ROOM_TO_SAVE = re.compile(r"\bNotEnoughSpace\b")

# In these states Prefect did not learn how the attempt ended.
_NOT_REPORTED = frozenset({"PENDING", "RUNNING"})
_REPORTED = frozenset({"CRASHED", "FAILED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A time in which a part of the platform did not work, as the worker saw it."""

    part: Part
    began_at: datetime
    seen_at: datetime
    """The moment at which it was seen last; the worker saw it work after that, or saw nothing any
    more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSigns:
    """The facts about an end that nothing of the run's own explains so far."""

    prefect_state_type: str | None
    state_message: str | None
    has_begun: bool
    """Whether Prefect counted the attempt as a run."""
    began_at: datetime
    ended_at: datetime
    exit_code: int | None
    """Negative: the signal that ended it; None: unknown."""
    output: Sequence[str] = ()
    """The last lines, oldest first."""
    is_folder_gone: bool = False
    """Whether its run folder was deleted."""


def seen_away(outages: Iterable[Outage], part: Part, now: datetime) -> tuple[Outage, ...]:
    """The same outages, with the knowledge that this part does not work now."""
    kept = [outage for outage in outages if outage.seen_at > now - _KEPT]
    for n, outage in enumerate(kept):
        if outage.part == part and outage.seen_at >= now - _UNNOTICED:
            kept[n] = replace(outage, seen_at=max(now, outage.seen_at))
            return tuple(kept)
    return (*kept, Outage(part=part, began_at=now, seen_at=now))


def excuse_of(signs: EndSigns, outages: Sequence[Outage]) -> str | None:
    """The outage of the platform that ended the attempt, rather than the run itself.

    Args:
        signs: Of a flow; a container without Prefect needs no API.
        outages: What the worker saw, in any order.

    Returns:
        A clause for the run's page; None: nothing that the worker saw explains it.
    """
    if signs.prefect_state_type not in _NOT_REPORTED | _REPORTED or _was_killed(signs.exit_code):
        return None
    said = "\n".join((signs.state_message or "", *signs.output[-_READ_LINES:]))
    if not signs.has_begun and signs.is_folder_gone and signs.ended_at - signs.began_at <= _STARTS:
        return "its run directory was deleted before the flow started"
    # On a full disk the output of an engine does not say so: it cannot be written either.
    lacks_space = not signs.has_begun or _NO_ROOM_TO_SAVE.search(said) is not None
    if lacks_space and (outage := _during(outages, "disk", signs, _ECHO)):
        return _clause(outage)
    # An engine that has not started its flow needs the API for each step, and its errors have many
    # texts: a websocket that got no answer, a file of a helper that gave up, an exit code alone.
    is_said = not signs.has_begun or _NO_API.search(said) is not None
    if not is_said and signs.prefect_state_type in _REPORTED:
        return None
    outage = _during(outages, "api", signs, _ECHO if is_said else timedelta())
    return None if outage is None else _clause(outage)


def _during(
    outages: Sequence[Outage], part: Part, signs: EndSigns, before: timedelta
) -> Outage | None:
    """The last outage between this time before the attempt's end, or its start, and its end."""
    since = max(signs.began_at, signs.ended_at - before)
    found = (
        outage
        for outage in outages
        if outage.part == part
        and outage.seen_at + _UNNOTICED >= since
        and outage.began_at - _UNNOTICED <= signs.ended_at
    )
    return max(found, key=lambda outage: outage.seen_at, default=None)


def _clause(outage: Outage) -> str:
    return f"{_NAMES[outage.part]} from {outage.began_at:%H:%M:%S} to {outage.seen_at:%H:%M:%S} UTC"


def _was_killed(exit_code: int | None) -> bool:
    """Did a signal end it, such as for want of memory? A shell reports 128 and the number."""
    return exit_code is not None and (exit_code < 0 or exit_code > 128)
