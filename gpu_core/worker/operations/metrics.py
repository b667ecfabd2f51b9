"""A worker's metrics for Prometheus: the event loop writes, the server thread reads."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from gpu_core.decisions.costs.usage.usage import US_PER_HOUR
from gpu_core.decisions.costs.usage.usage_cost import Held, usage_for
from gpu_core.decisions.model.attempts import Attempt, EndReason, RunRecord
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.telemetry.metrics import GpuGroup, HourlyCost, JudgedUse, WorkerFacts
from gpu_core.worker.operations.cycle_log import CycleCounts


class WorkerMetrics:
    """The facts of one worker. Replaced as a whole: a scrape never sees half of a cycle.

    Args:
        pool: The pool's name.
        clock_s: Seconds since 1970.
    """

    def __init__(self, pool: str, clock_s: Callable[[], float] = time.time) -> None:
        self._pool = pool
        self._clock_s = clock_s
        self._facts = WorkerFacts(pool=pool)
        self._runs: tuple[tuple[RunRecord, Attempt], ...] = ()
        self._lock = threading.Lock()
        self.with_devices: Callable[[WorkerFacts], WorkerFacts] = lambda facts: facts
        """Adds what the worker knows of the GPUs of its machine, at the moment of the scrape."""

    def facts(self) -> WorkerFacts:
        """The facts that are known now."""
        with self._lock:
            known, runs = self._facts, self._runs
        # What runs cost is worked out for a scrape, not in each of the cycles between two scrapes.
        costs = tuple(hourly_cost(run, attempt) for run, attempt in runs)
        return self.with_devices(replace(known, costs=costs))

    def forget(self) -> None:
        """Another worker schedules by now: what this one knew is no longer true."""
        with self._lock:
            self._facts = WorkerFacts(pool=self._pool)
            self._runs = ()
            self.with_devices = lambda facts: facts

    def note_cycle(
        self,
        counts: CycleCounts,
        steps_s: Mapping[str, float],
        gpus: Mapping[GpuGroup, int],
        held_gpu_ids: Iterable[str],
        runs: Iterable[tuple[RunRecord, Attempt]],
        withheld_micro_usd: float = 0.0,
    ) -> None:
        """A scheduling cycle has ended, with these runs in these attempts."""
        with self._lock:
            self._runs = tuple(runs)
            before = self._facts
            self._facts = replace(
                before,
                running=counts.running,
                starts=before.starts + counts.started,
                preemptions=before.preemptions + counts.preempted,
                gpus=dict(gpus),
                withheld_micro_usd=withheld_micro_usd,
                held_gpu_ids=frozenset(held_gpu_ids),
                steps_s=dict(steps_s),
                cycles=before.cycles + 1,
                cycle_ended_at_s=self._clock_s(),
            )

    def note_use(self, uses: Iterable[JudgedUse], hung: int) -> None:
        """The use and the progress of the attempts were judged."""
        with self._lock:
            self._facts = replace(self._facts, uses=tuple(uses), hung=hung)

    def note_waiting(self, reasons: Iterable[Reason], oldest_wait_s: float) -> None:
        """These runs wait."""
        with self._lock:
            waiting = Counter(reasons)
            # A reason that no run has any more is 0, not gone: a gap would look like silence.
            known = dict.fromkeys(self._facts.waiting, 0) | waiting
            self._facts = replace(self._facts, waiting=known, oldest_wait_s=oldest_wait_s)

    def note_end(self, reason: EndReason) -> None:
        """An attempt ended."""
        with self._lock:
            ends = dict(self._facts.ends)
            ends[reason] = ends.get(reason, 0) + 1
            self._facts = replace(self._facts, ends=ends)

    def note_team_costs(self, costs: Mapping[tuple[str | None, str], float]) -> None:
        """The ledger was read for what teams have spent."""
        with self._lock:
            self._facts = replace(
                self._facts, team_cost_micro_usd=dict(costs), ledger_read_at_s=self._clock_s()
            )


def hourly_cost(run: RunRecord, attempt: Attempt) -> HourlyCost:
    """The cost of this attempt for an hour at its present price."""
    usage = usage_for(Held.by(attempt), US_PER_HOUR, attempt.price_changes[-1].rates)
    return HourlyCost(
        model=run.model,
        team=run.team,
        workload_type=run.workload_type,
        micro_usd=None if usage.is_unpriced else float(usage.exact_micro_usd),
    )
