"""The runs of a deployment that show how much memory it needs."""

from collections.abc import Sequence
from datetime import datetime

from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.requests.out_of_memory.shortage import MemoryShortage, memory_shortage


class MemoryLessons:
    """For each deployment its last runs that ran out of memory and completed after that.

    One run for each kind of memory: a run that ran out of one may have begun with enough of the
    other. Fed by the worker; a run may be observed any number of times.
    """

    def __init__(self) -> None:
        self._runs: dict[tuple[str, MemoryShortage], tuple[datetime, tuple[Attempt, ...]]] = {}

    def observe(self, deployment: str | None, attempts: Sequence[Attempt]) -> None:
        """Learn from this run, if it shows anything.

        Args:
            deployment: None: it has none, and shows nothing for other runs.
            attempts: All of it so far, by number.
        """
        last = attempts[-1] if attempts else None
        if deployment is None or last is None or last.released_at is None:
            return
        if last.end_reason is not EndReason.COMPLETED:
            return  # what it had last was not shown to be enough
        shown = {memory_shortage(attempt) for attempt in attempts}
        for kind in (each for each in MemoryShortage if each in shown):
            known = self._runs.get((deployment, kind))
            if known is None or known[0] <= last.released_at:
                self._runs[deployment, kind] = last.released_at, tuple(attempts)

    def of(self, deployment: str | None, since: datetime) -> tuple[Attempt, ...]:
        """The attempts of its runs that show something, the earlier run first.

        Args:
            since: Runs that ended before this say little about today's code.
        """
        if deployment is None:
            return ()
        found = [self._runs.get((deployment, kind)) for kind in MemoryShortage]
        # One run may have run out of both.
        runs = {run[1][0].flow_run_id: run for run in found if run is not None and run[0] >= since}
        by_end = sorted(runs.values(), key=lambda run: run[0])
        return tuple(attempt for _, attempts in by_end for attempt in attempts)
