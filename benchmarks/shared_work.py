"""Runs on a part of a GPU, slowed down by their neighbors as customers of a queue are.

Each run computes on the GPU, and between that does something else. A kernel waits for those of the
neighbors that are on the GPU: approximate mean value analysis of a closed queueing network
(Schweitzer, International Conference on Stochastic Control and Optimization, 1979). The predictor
knows neither who the neighbors are nor this model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

import numpy as np

from benchmarks.saving_histories import WEEKEND, History, Work
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.optimization.proposals.run_facts import Record

SWITCH = 0.03
"""What a change between the kernels of two processes costs, as a part of the wait for them."""
OCCUPIED = 0.85
"""How often the other parts of a GPU are held."""
_ROUNDS = 30
_DRAWS = 2000
_GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """How runs would share a GPU.

    Attributes:
        busy: The part of its time in which a run computes on the GPU when it is alone.
        neighbors_busy: The same of those that it may share it with, in the mean.
        parts: Of a GPU.
        memory_gib: The most that a run uses.
    """

    busy: float
    neighbors_busy: float
    parts: int
    memory_gib: float

    @property
    def share_milli(self) -> int:
        """Thousandths of a GPU."""
        return 1000 // self.parts


def stretch(own: float, neighbors: Sequence[float]) -> float:
    """How many times as long does a run take with these neighbors?"""
    demand = np.array([own, *neighbors])
    waits = np.array(demand)
    for _ in range(_ROUNDS):
        on_gpu = waits / (waits + 1 - demand)
        waits = demand * (1 + (1 + SWITCH) * (on_gpu.sum() - on_gpu))
    return float(waits[0] + 1 - own)


class SharedHistory(History):
    """Makes records of runs that have a GPU, or a part of one."""

    def alone(self, work: Work, sharing: Sharing, first: date, days: int) -> Iterator[Record]:
        """Runs with a whole GPU, which was sampled."""
        for run, attempts in self.days(work, first, days):
            used = GpuSummary(
                gpu_id="0",
                samples=3600,
                utilization_mean_ratio=self._busy(sharing.busy),
                memory_used_max_bytes=int(sharing.memory_gib * self._rng.uniform(0.8, 1.0) * _GIB),
            )
            yield run, tuple(replace(a, gpu_summaries=(used,)) for a in attempts)

    def shared(self, work: Work, sharing: Sharing, first: date, days: int) -> Iterator[Record]:
        """Runs on a part of a GPU, each with neighbors of its own."""
        for offset in range(days):
            day = first + timedelta(days=offset)
            share = WEEKEND if day.weekday() >= 5 else 1.0
            for _ in range(int(self._rng.poisson(work.runs_per_weekday * share))):
                run, attempts = self.run(work.faster(self.stretch(sharing)), day)
                yield run, tuple(part_of(attempt, sharing.share_milli) for attempt in attempts)

    def stretch(self, sharing: Sharing) -> float:
        """How many times as long does a run take with neighbors that chance gives it?"""
        there = int(self._rng.binomial(sharing.parts - 1, OCCUPIED))
        neighbors = [self._busy(sharing.neighbors_busy, 0.25) for _ in range(there)]
        return stretch(self._busy(sharing.busy), neighbors)

    def _busy(self, mean: float, spread: float = 0.1) -> float:
        return float(np.clip(mean * (1 + spread * self._rng.standard_normal()), 0.01, 0.99))


def true_saving(sharing: Sharing) -> float:
    """What does the part of a GPU save in many runs?"""
    history = SharedHistory(99)
    mean = float(np.mean([history.stretch(sharing) for _ in range(_DRAWS)]))
    return 1 - mean / sharing.parts


def part_of(attempt: Attempt, share_milli: int) -> Attempt:
    """The same attempt on so many thousandths of a GPU, without samples of it."""
    share = NodeShare(node=attempt.node, gpu_ids=("0",), share_milli=share_milli)
    return replace(attempt, shares=(share,), price_source="bench", gpu_summaries=None)
