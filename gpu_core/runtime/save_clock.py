"""Decides when the next save is due, from the measured time of saves."""

from collections.abc import Callable
from datetime import UTC, datetime

from gpu_core.decisions.checkpoints.save_interval import (
    IntervalSettings,
    SaveInterval,
    SaveTime,
    SaveTimes,
    expected_loss_s,
    last_save_in_s,
    retry_pause_s,
    save_interval,
    unannounced_loss_s,
)
from gpu_core.decisions.requests.runs.run_context import RunContext

# After a notice there is no time for longer pauses, and without one the log would overflow.
_NOTICE_RETRY_S = 1.0


class SaveSchedule:
    """Decides when to save.

    Args:
        run: What the worker says; None outside a run, where nothing is saved.
        interval_s: Seconds between saves; None: what the worker says.
        clock: Seconds that only ever grow.
    """

    def __init__(
        self, run: RunContext | None, interval_s: float | None, clock: Callable[[], float]
    ) -> None:
        self._run = run
        self._clock = clock
        self._fixed_s = interval_s
        if interval_s is None and run is not None and not run.checkpoint_interval_adapts:
            self._fixed_s = run.checkpoint_interval_s
        self._born_s = clock() - _age_s(run)
        self.times = SaveTimes()
        """The times of the latest saves."""
        self._failures = 0
        self._last_save_at_s: float | None = None
        self._since_s = clock()
        self._wait_s = self._interval_s()

    def adapted(self) -> SaveInterval | None:
        """The interval that suits what was measured, and why; None: it is fixed."""
        if self._fixed_s is not None or self._run is None:
            return None
        return save_interval(
            self.times,
            self._run.capacity_life,
            self._clock() - self._born_s,
            self._settings(self._run),
        )

    @staticmethod
    def _settings(run: RunContext) -> IntervalSettings:
        return IntervalSettings(default_s=run.checkpoint_interval_s)

    def expected_loss_s(self) -> float | None:
        """How much work does an interruption lose on average? None: no save was measured yet."""
        adapted, persist_s = self.adapted(), self.times.persist_s
        if adapted is not None and self._run is not None:
            share = self._settings(self._run).unannounced_share
            return expected_loss_s(adapted, self._run.grace_s, share)
        if self._fixed_s is None or persist_s is None:
            return None
        return unannounced_loss_s(self._fixed_s, persist_s)

    def restart(self) -> None:
        """The interval counts from now on."""
        self._since_s = self._clock()
        self._wait_s = self._interval_s()

    def succeeded(self, took: SaveTime) -> None:
        """A save took this long. The interval counts from when the training continued."""
        self.times = self.times.after(took)
        self._failures = 0
        self._wait_s = self._interval_s()

    def failed(self) -> None:
        """A save failed just now."""
        self._failures += 1
        self._since_s = self._clock()
        self._wait_s = retry_pause_s(self._failures, self._interval_s())

    def plan_last_save(self, grace_s: float) -> None:
        """The run has saved for a notice, and has this long until its end."""
        left_s = last_save_in_s(grace_s, self.times)
        self._last_save_at_s = None if left_s is None else self._clock() + left_s

    def is_due(self) -> bool:
        """Has the interval passed, or the time for the last save come?"""
        now_s = self._clock()
        if self._last_save_at_s is not None and now_s >= self._last_save_at_s:
            return True
        return now_s - self._since_s >= self._wait_s

    def may_retry(self) -> bool:
        """Is the last failure long enough ago to try again for a notice?"""
        return not self._failures or self._clock() - self._since_s >= _NOTICE_RETRY_S

    def _interval_s(self) -> float:
        adapted = self.adapted()
        return (self._fixed_s or 0.0) if adapted is None else adapted.interval_s


def _age_s(run: RunContext | None) -> float:
    if run is None or run.capacity_since is None:
        return 0.0
    return max(0.0, (datetime.now(UTC) - run.capacity_since).total_seconds())
