"""The health of a worker: what it does, since when, and whether a restart would help."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from gpu_core.decisions.model.errors import one_line
from gpu_core.decisions.model.redaction import redact

STUCK_AFTER_INTERVALS = 30
"""A worker is stuck without the end of a cycle for this many polling intervals: Prefect's own bound
(3.8.8, `prefect.workers.base._is_within_polling_window`), five minutes with its default of 10 s."""

# An answer is read in a terminal.
_LONGEST_REASON = 300


class WorkerState(StrEnum):
    """The activity of a worker. A stable contract: probes and alerts match on it."""

    STARTING = "starting"
    """No scheduling cycle has ended yet."""
    ACTING = "acting"
    """It schedules the runs of its pool."""
    STANDBY = "standby"
    """Another worker acts; this one takes over when that one ends."""
    WAITING = "waiting"
    """Prefect's API, the ledger, the cluster or the machine's GPUs do not answer."""
    FAILING = "failing"
    """Its scheduling cycles end with an error."""
    STUCK = "stuck"
    """No scheduling cycle ends, although nothing is unavailable: only a restart helps."""
    STOPPING = "stopping"
    """It was asked to stop and starts no run any more."""


_READY = (WorkerState.ACTING, WorkerState.STANDBY)
_REMEDIES = {
    WorkerState.STARTING: "Wait for the first scheduling cycle to finish.",
    WorkerState.STANDBY: (
        "No action is needed: this worker takes over when the active worker stops."
    ),
    WorkerState.WAITING: "Resolve the reported problem. The worker then recovers automatically.",
    WorkerState.FAILING: "See the traceback in the worker's log. The worker retries in each cycle.",
    WorkerState.STUCK: "Restart the worker. Its runs continue.",
    WorkerState.STOPPING: "No action is needed: running runs continue without this worker.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedWorker:
    """The state of a worker for its health endpoint. Times are of a monotonic clock, in seconds."""

    state: WorkerState
    since_s: float
    reason: str | None = None
    started_at_s: float
    cycle_ended_at_s: float | None = None
    """The end of the last scheduling cycle; None: none has ended."""
    loop_ran_at_s: float
    """The moment at which the event loop last ran."""
    away_since_s: float | None = None
    """Since when Prefect's API has been unavailable; None: it is available."""
    back_at_s: float | None = None
    """The moment at which Prefect's API was back after an outage; None: there was no outage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The answer to a probe; moments as in `ObservedWorker`."""

    state: WorkerState
    since_s: float
    reason: str | None
    cycle_ended_at_s: float | None

    @property
    def remedy(self) -> str | None:
        """What helps, as a sentence; None: the worker schedules."""
        return _REMEDIES.get(self.state)

    @property
    def is_live(self) -> bool:
        """False: a restart helps. An outage of another system is no reason for one."""
        return self.state is not WorkerState.STUCK

    @property
    def is_ready(self) -> bool:
        """Does it act, or could it take over now?"""
        return self.state in _READY


def judge(observed: ObservedWorker, *, stuck_after_s: float, now_s: float) -> Health:
    """The health of the worker.

    A blocked event loop is always stuck, because everything else that is known is outdated. A
    cycle that lasts is stuck only when Prefect's API was there all that time.

    Args:
        observed: What it has noted.
        stuck_after_s: For how long no cycle may end, above 0.
        now_s: By the clock of `observed`.
    """
    if now_s - observed.loop_ran_at_s > stuck_after_s:
        return _stuck(observed, observed.loop_ran_at_s, "The event loop has been blocked", now_s)
    if observed.away_since_s is not None:
        reason = "The Prefect API is not responding."
        return _health(observed, WorkerState.WAITING, reason, observed.away_since_s)
    moments = (observed.started_at_s, observed.cycle_ended_at_s, observed.back_at_s)
    since_s = max(moment for moment in moments if moment is not None)
    if now_s - since_s > stuck_after_s:
        return _stuck(observed, since_s, "No scheduling cycle has finished", now_s)
    is_starting = observed.state is WorkerState.STARTING
    known = "No scheduling cycle has finished yet." if is_starting else observed.reason
    return _health(observed, observed.state, known, observed.since_s)


def _stuck(observed: ObservedWorker, since_s: float, what: str, now_s: float) -> Health:
    reason = f"{what} for {now_s - since_s:.0f} s."
    return _health(observed, WorkerState.STUCK, reason, since_s)


def _health(
    observed: ObservedWorker, state: WorkerState, reason: str | None, since_s: float
) -> Health:
    return Health(
        state=state,
        since_s=since_s,
        reason=reason,
        cycle_ended_at_s=observed.cycle_ended_at_s,
    )


class HealthMonitor:
    """Notes what a worker does. Written by the event loop, read by the thread that answers probes.

    Args:
        query_interval_s: Between two polls of the worker, above 0.
        now_s: A monotonic clock.
    """

    def __init__(
        self, query_interval_s: float, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._stuck_after_s = STUCK_AFTER_INTERVALS * query_interval_s
        self._now_s = now_s
        self._stopping_since_s: float | None = None
        at_s = now_s()
        # Replaced as a whole: a reader in another thread never sees half of a change.
        self._observed = ObservedWorker(
            state=WorkerState.STARTING, since_s=at_s, started_at_s=at_s, loop_ran_at_s=at_s
        )

    def note_cycle(self, state: WorkerState, reason: str | None = None) -> None:
        """A scheduling cycle has ended, and this is what the worker does."""
        at_s, before = self._now_s(), self._observed
        self._observed = replace(
            before,
            state=state,
            since_s=before.since_s if state is before.state else at_s,
            # All who reach the port can read it, and a cut could hide the end of an address.
            reason=None if reason is None else one_line(redact(reason), _LONGEST_REASON),
            cycle_ended_at_s=at_s,
        )

    def note_loop(self, *, is_api_away: bool) -> None:
        """The event loop runs, and Prefect's API was there or not when it was polled last."""
        at_s, before = self._now_s(), self._observed
        away_since_s = (before.away_since_s or at_s) if is_api_away else None
        is_back = before.away_since_s is not None and not is_api_away
        self._observed = replace(
            before,
            loop_ran_at_s=at_s,
            away_since_s=away_since_s,
            back_at_s=at_s if is_back else before.back_at_s,
        )

    def note_stop(self) -> None:
        """The worker stops from now on. May be called in a signal handler."""
        self._stopping_since_s = self._now_s()

    def health(self) -> Health:
        """The health of the worker at this moment."""
        observed = self._observed
        if self._stopping_since_s is not None:
            reason = "The worker is shutting down and does not start any runs."
            return _health(observed, WorkerState.STOPPING, reason, self._stopping_since_s)
        return judge(observed, stuck_after_s=self._stuck_after_s, now_s=self._now_s())

    def document(self, health: Health, now: datetime) -> dict[str, object]:
        """This answer as a JSON object, its moments by the calendar."""
        now_s = self._now_s()

        def moment(at_s: float) -> str:
            return (now - timedelta(seconds=now_s - at_s)).isoformat(timespec="milliseconds")

        ended_at_s = health.cycle_ended_at_s
        return {
            "state": health.state,
            "since": moment(health.since_s),
            "last_cycle_at": None if ended_at_s is None else moment(ended_at_s),
            "reason": health.reason,
            "remedy": health.remedy,
        }
