"""The expected start of a pending workload, with an interval that is right four times in five.

Two rough answers, combined, then corrected by how wrong they were for earlier starts: split
conformal prediction (Vovk, Gammerman & Shafer 2005) on the logarithm of the ratio. Conformal
levels that adapt to each miss (Gibbs & Candès, NeurIPS 2021), tried with one step size, did worse
in three of four orders of the line on 1-10 October 2017 of the Philly trace: a miss is seen only
when the workload starts, hours after the spell that caused it. A long memory did better. Neither
did these on the same days: weights learned by ridge regression, the errors of the most similar
starts only, the moment at which enough GPUs come back by the run times known, and the line without
those who ask for more GPUs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.recent_sample import RecentSample

COVERAGE = 0.8
"""The part of starts that should fall into their interval."""

# Waits come in spells, so the latest errors know less about the next one than as many independent
# ones would. Tails of 8% instead of 10% make up for it: a judgment between 6 and 10%, the two
# that were tried on 1-10 October 2017 of the Philly trace.
_TAIL = 0.08
_REMEMBERED_STARTS = 3_000
_NEEDED_STARTS = 20
# Turnover sees all that delays the queue, the work ahead only known run times. Of 0.5 to 0.9 in
# steps of 0.1, 0.6 and 0.7 had the least interval scores, summed over four orders of the same days.
_TURNOVER_WEIGHT = 2 / 3
# Added before any ratio is taken, so that waits of 1 s and 5 s count as nearly the same.
_OFFSET_S = 60.0
# The slowest line that is believed in; in an hour without any start, the rate says nothing.
_SLOWEST_TURNOVER_S = 2 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFeatures:
    """The state of the line for one flavor, at the moment of a forecast."""

    gpus_wanted: int
    """GPUs that the workload wants, over all nodes."""
    gpus_ahead: int
    """GPUs that those ahead of it want."""
    gpu_s_ahead: float
    """The same times their run times, of those whose run time is known."""
    total_gpus: int
    """GPUs of the flavor, free or not; at least 1."""
    started_gpus_per_s: float
    """GPUs of workloads that started in the last hour, by the seconds of an hour."""
    head_waited_s: float
    """How long the head of the line has waited; 0: it is the head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartForecast:
    """The predicted start of a workload, in seconds from the moment of the forecast."""

    low_s: float
    median_s: float
    high_s: float


class StartForecaster:
    """Learns from starts how long a place in the line means to wait; one for each flavor.

    An observation costs O(log n) in the number of starts remembered, at most 3,000.
    """

    def __init__(self) -> None:
        self._errors = RecentSample(_REMEMBERED_STARTS)

    def observe(self, features: QueueFeatures, waited_s: float) -> None:
        """Learn from a start.

        Args:
            features: What was seen of the line at some moment while it waited: its submission.
            waited_s: From that moment to its start, 0 or more.
        """
        self._errors.add(math.log(waited_s + _OFFSET_S) - _log_wait(features))

    def forecast(self, features: QueueFeatures) -> StartForecast | None:
        """The expected start of a workload with this place in the queue.

        None: too few have started.
        """
        if len(self._errors) < _NEEDED_STARTS:
            return None
        middle = _log_wait(features)
        low, median, high = (
            max(math.exp(middle + (self._errors.upper(level) or 0.0)) - _OFFSET_S, 0.0)
            for level in (_TAIL, 0.5, 1 - _TAIL)
        )
        return StartForecast(low_s=low, median_s=median, high_s=high)

    def state(self) -> dict[str, object]:
        """The state that it has learned, as plain data for JSON."""
        return {"version": 1, "log_errors": list(self._errors.values())}

    @classmethod
    def from_state(cls, state: Mapping[str, object]) -> "StartForecaster":
        """The forecaster that gave this state.

        Raises:
            InvalidInput: It is not the state of a forecaster.
        """
        errors = state.get("log_errors")
        if (
            state.get("version") != 1
            or not isinstance(errors, list)
            or not all(isinstance(error, int | float) for error in errors)
        ):
            raise InvalidInput("forecaster", "is not a state of version 1", got=dict(state))
        forecaster = cls()
        forecaster._errors = RecentSample(_REMEMBERED_STARTS, errors)
        return forecaster


def turnover_wait_s(features: QueueFeatures) -> float:
    """How long until those ahead and it have started, if starts continue as in the last hour?"""
    slowest = features.total_gpus / _SLOWEST_TURNOVER_S
    return (features.gpus_ahead + features.gpus_wanted) / max(features.started_gpus_per_s, slowest)


def _log_wait(features: QueueFeatures) -> float:
    """The weighted geometric mean of two rough answers: the rate of starts, and the work ahead."""
    work_s = features.gpu_s_ahead / features.total_gpus + features.head_waited_s
    by_turnover, by_work = (
        math.log(wait_s + _OFFSET_S) for wait_s in (turnover_wait_s(features), work_s)
    )
    return _TURNOVER_WEIGHT * by_turnover + (1 - _TURNOVER_WEIGHT) * by_work
