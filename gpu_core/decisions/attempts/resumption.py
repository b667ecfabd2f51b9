"""The deployments whose runs have shown that they resume from complete checkpoints."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.recent_starts import RecentStarts

SHOWN_BY = 3
"""As many continued runs show it: one may be luck, and the worker asks for three measured starts
before it relies on them, too."""
_STARTS_KEPT = 20


class ContinuedStart(NamedTuple):
    """An attempt that continued earlier work of its run."""

    has_resumed: bool
    """It began with the newest checkpoint. Otherwise it started over, or with an older one."""
    restart_s: float
    """From its admission to its first new step."""


class ResumptionHistory:
    """The latest continued attempts of each deployment, and whether they resumed."""

    def __init__(self) -> None:
        self._starts = RecentStarts[ContinuedStart](_STARTS_KEPT)

    def observe(self, deployment: str | None, attempts: Sequence[Attempt]) -> None:
        """Learn from a run, as often as it is read.

        Args:
            deployment: Its id or name; None: nothing is learned.
            attempts: All of the run, by number.
        """
        self._starts.observe(deployment, resumptions(attempts))

    def has_resumed(self, deployment: str | None) -> bool:
        """Have runs of this deployment shown that they resume, and has none started over?"""
        starts = self._starts.of(deployment)
        return len(starts) >= SHOWN_BY and all(start.has_resumed for start in starts)

    def restart_s(self, deployment: str | None) -> float | None:
        """How long does a run of this deployment restart, by the median? None: unknown."""
        starts = self._starts.of(deployment)
        return median(start.restart_s for start in starts) if starts else None


def resumptions(attempts: Sequence[Attempt]) -> Mapping[str, ContinuedStart]:
    """The attempts that continued earlier work of this run, by attempt id.

    It resumed if it began with the newest checkpoint of the attempts before it, and then did a new
    step: the checkpoint was complete. It started over if it did a step without, or after an older
    one. Left out is an attempt that did no step, and one before which no work was done.

    Args:
        attempts: All of one run, by number.
    """
    found: dict[str, ContinuedStart] = {}
    newest: str | None = None
    was_work_done = False
    for attempt in attempts:
        if attempt.first_step_at is not None and was_work_done:
            is_newest = newest is not None and attempt.restored_from == newest
            took_s = (attempt.first_step_at - attempt.admitted_at).total_seconds()
            found[attempt.attempt_id] = ContinuedStart(is_newest, max(0.0, took_s))
        newest = attempt.checkpoint or newest
        was_work_done = was_work_done or attempt.first_step_at is not None or newest is not None
    return found
