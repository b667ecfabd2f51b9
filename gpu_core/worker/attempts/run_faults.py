"""Isolates the errors of one run: other runs continue, and this run is retried later."""

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TypeVar

from gpu_core.adapters.prefect.flow_runs import is_flow_run_id
from gpu_core.decisions.model.errors import ended, one_line
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.units import format_duration
from gpu_core.decisions.model.workload import Hold
from gpu_core.worker.attempts.run_log import log_of_run
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.operations.outage_errors import is_outage

_log = logging.getLogger("prefect.gpu.faults")

T = TypeVar("T")

_FIRST_HOLD_S = 5
_LONGEST_HOLD_S = 600

# Characters of an error's text on the page of its run.
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class _Fault:
    """The last error of a run."""

    what: str
    held_s: int
    until: datetime


class _Containment(AbstractContextManager[None]):
    """A context of `contained`: a cycle enters thousands, most of which have nothing to note."""

    __slots__ = ("_but", "_doing", "_faults", "_flow_run_id", "_name", "_now")

    def __init__(
        self,
        faults: "RunFaults",
        flow_run_id: str,
        name: str,
        doing: str,
        now: datetime | None,
        but: tuple[type[Exception], ...],
    ) -> None:
        self._faults = faults
        self._flow_run_id = flow_run_id
        self._name = name
        self._doing = doing
        self._now = now
        self._but = but

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception) or is_outage(error) or isinstance(error, self._but):
            return False
        now = self._now or datetime.now(UTC)
        self._faults.note(self._flow_run_id, self._name, self._doing, error, now)
        return True


class RunFaults:
    """Contains the errors of single runs. Every place that handles one run goes through this.

    A queued run is held with the error as its reason, longer each time; of an attempt that holds
    GPUs the error is logged as rarely, and the attempt keeps them. Nothing is charged to the run.

    Args:
        hidden: A text without secrets: errors are shown on pages.
    """

    def __init__(self, hidden: Callable[[str], str] = str) -> None:
        self._hidden = hidden
        self._faults: dict[str, _Fault] = {}

    def contained(
        self,
        flow_run_id: str,
        name: str,
        doing: str,
        now: datetime | None = None,
        *,
        but: tuple[type[Exception], ...] = (),
    ) -> AbstractContextManager[None]:
        """A context that notes an error of this run instead of raising it.

        An outage, which is no run's fault, is raised.

        Args:
            flow_run_id: Whose error it would be.
            name: The run's name, for the log.
            doing: What is done with the run, as in `it could not be DOING`.
            now: The moment of the cycle; None: this one.
            but: Errors that the caller handles.
        """
        return _Containment(self, flow_run_id, name, doing, now, but)

    def note(
        self, flow_run_id: str, name: str, doing: str, error: Exception, now: datetime
    ) -> None:
        """This went wrong for the run: hold it back, and log it once until it is tried again."""
        last = self._faults.get(flow_run_id)
        if last is not None and now < last.until:
            return
        held_s = _FIRST_HOLD_S if last is None else min(2 * last.held_s, _LONGEST_HOLD_S)
        text = one_line(self._hidden(f"{type(error).__name__}: {error}"), _SHOWN)
        what = f"the run could not be {doing}: {text}"
        self._faults[flow_run_id] = _Fault(what, held_s, now + timedelta(seconds=held_s))
        fields = {"flow_run_id": flow_run_id, "reason": Reason.INTERNAL_ERROR}
        _log.error(
            "Skipping run %r for %d seconds: %s", name, held_s, what, exc_info=error, extra=fields
        )
        # A line that Prefect does not take costs other runs theirs.
        if is_flow_run_id(flow_run_id):
            log = log_of_run(flow_run_id, name, reason=Reason.INTERNAL_ERROR)
            log.error("Skipped due to an error. Retrying in %d seconds: %s", held_s, what)

    def of_run(
        self, running: AttemptState, doing: str, now: datetime | None = None
    ) -> AbstractContextManager[None]:
        """`contained` for the run of an attempt."""
        return self.contained(*by_run(running), doing, now)

    async def one_by_one(
        self,
        items: Sequence[T],
        key: Callable[[T], tuple[str, str]],
        act: Callable[[Sequence[T]], Awaitable[None]],
        doing: str,
    ) -> None:
        """Act on all of these together; where that fails, on each alone, so that one fails alone.

        Args:
            items: May be empty: acting on none has its use too.
            key: The flow run id and the name of the run of an item.
            act: May be called again for items that it has served.
            doing: As for `contained`.

        Raises:
            Exception: An outage.
        """
        try:
            await act(items)
        except Exception as error:
            if is_outage(error) or not items:
                raise
            for item in items:
                with self.contained(*key(item), doing):
                    await act([item])

    def hold(self, flow_run_id: str, now: datetime) -> Hold | None:
        """The hold of this run before its next try; None: it may be tried."""
        fault = self._faults.get(flow_run_id)
        if fault is None or now >= fault.until:
            return None
        return Hold(
            reason=Reason.INTERNAL_ERROR,
            summary=ended(f"Held: {fault.what}"),
            resolution=f"Retrying within {format_duration(fault.held_s)}. Please check the "
            "run's job variables or report this error to the platform team.",
        )

    def keep(self, flow_run_ids: Collection[str], now: datetime) -> None:
        """Forget runs that are gone, and those for which all went well for long."""
        quiet = timedelta(seconds=_LONGEST_HOLD_S)
        self._faults = {
            key: fault
            for key, fault in self._faults.items()
            if key in flow_run_ids and now < fault.until + quiet
        }


def by_run(running: AttemptState) -> tuple[str, str]:
    """The owner of an attempt, for errors that concern it: the flow run's id and name."""
    return running.record.flow_run_id, running.record.name
