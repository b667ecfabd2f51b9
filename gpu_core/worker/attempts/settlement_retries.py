"""The moments at which the end of an attempt is settled again after an error, and the last one."""

from dataclasses import dataclass

from gpu_core.decisions.model.errors import one_line

_FIRST_OUTAGE_PAUSE_S = 2.0
_LONGEST_OUTAGE_PAUSE_S = 60.0
_FIRST_FAULT_PAUSE_S = 5.0
_LONGEST_FAULT_PAUSE_S = 600.0

LONGEST_FAULT_S = 24 * 3600.0
"""How long the end of one attempt is settled again while only this one fails. A day lets a person
see it and correct it; until the attempt is closed its run counts as running, in its cost, too."""

_SHOWN = 300


@dataclass(slots=True)
class SettlementRetries:
    """The tries for one attempt.

    An outage of the platform has no bound: it ends for all runs at once, and what an attempt was is
    known then. An error of this attempt alone, such as a text that the server refuses, may never
    end.
    """

    _outage_pause_s: float = _FIRST_OUTAGE_PAUSE_S
    _fault_pause_s: float = _FIRST_FAULT_PAUSE_S
    _faulted_s: float = 0.0
    fault: str | None = None
    """The last error of this attempt alone; None: there was none."""

    @property
    def is_over(self) -> bool:
        """Is the attempt to be closed without being settled?"""
        return self._faulted_s >= LONGEST_FAULT_S

    def after_outage(self) -> float:
        """How many seconds until the next try, at the latest, after an error of the platform?"""
        pause_s = self._outage_pause_s
        self._outage_pause_s = min(2 * pause_s, _LONGEST_OUTAGE_PAUSE_S)
        return pause_s

    def after_fault(self, error: str) -> float:
        """How many seconds until the next try after an error of this attempt alone?

        Args:
            error: Without secrets.
        """
        pause_s = self._fault_pause_s
        self._fault_pause_s = min(2 * pause_s, _LONGEST_FAULT_PAUSE_S)
        self._faulted_s += pause_s
        self.fault = one_line(error, _SHOWN)
        return pause_s
