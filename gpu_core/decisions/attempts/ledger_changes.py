"""The news in the ledger since the last read: the same attempts are read again and again."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from gpu_core.decisions.model.attempts import Attempt, RunRecord

Record = tuple[RunRecord, tuple[Attempt, ...]]
"""A run with all its attempts, by number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerChanges:
    """The attempts that started or ended since the last read; one that did both is in both."""

    started: tuple[tuple[RunRecord, Attempt], ...]
    ended: tuple[tuple[RunRecord, Attempt], ...]
    withdrawn: tuple[str, ...]
    """Attempts that were started and are in the ledger no more."""
    touched: tuple[Record, ...]
    """The runs of `ended`."""


class LedgerFollower:
    """Reports each start and each end of an attempt once, over any number of reads.

    A read has what held GPUs since a little before the last one, and the runs of `open_runs`,
    whose end may be written down long after it was. Machines that share the ledger may learn
    late of each other's attempts; as late as reads overlap does not matter.
    """

    def __init__(self) -> None:
        self._open: dict[str, str] = {}
        self._closed: dict[str, datetime] = {}

    @property
    def open_runs(self) -> frozenset[str]:
        """The runs with an attempt that was open at the last read."""
        return frozenset(self._open.values())

    @property
    def open_attempts(self) -> frozenset[str]:
        """The attempts that were open at the last read."""
        return frozenset(self._open)

    def observe(self, records: Iterable[Record], since: datetime) -> LedgerChanges:
        """The starts, ends and withdrawals since the last read.

        Args:
            records: Every run that held GPUs after `since`, and all of `open_runs` that are still
                in the ledger, with all attempts of each.
            since: What ended before, and was not open at the last read, is no news.
        """
        started: list[tuple[RunRecord, Attempt]] = []
        ended: list[tuple[RunRecord, Attempt]] = []
        touched: list[Record] = []
        seen: set[str] = set()
        for run, attempts in records:
            ends_before = len(ended)
            for attempt in attempts:
                seen.add(attempt.attempt_id)
                if self._is_new(attempt, since):
                    started.append((run, attempt))
                    self._open[attempt.attempt_id] = run.flow_run_id
                if attempt.attempt_id in self._open and attempt.released_at is not None:
                    ended.append((run, attempt))
                    del self._open[attempt.attempt_id]
                    self._closed[attempt.attempt_id] = attempt.released_at
            if len(ended) > ends_before:
                touched.append((run, attempts))
        withdrawn = tuple(attempt_id for attempt_id in self._open if attempt_id not in seen)
        for attempt_id in withdrawn:
            del self._open[attempt_id]
        self._closed = {key: at for key, at in self._closed.items() if at > since}
        return LedgerChanges(
            started=tuple(started),
            ended=tuple(ended),
            withdrawn=withdrawn,
            touched=tuple(touched),
        )

    def _is_new(self, attempt: Attempt, since: datetime) -> bool:
        if attempt.attempt_id in self._open or attempt.attempt_id in self._closed:
            return False
        return attempt.released_at is None or attempt.released_at > since
