"""A month of Philly in a line for 640 GPUs that may spread: when does each job start?

Non-preemptive. At each second: what finishes, then what arrives, then one pass over the line.
"""

import heapq
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from benchmarks.philly import Job
from gpu_core.decisions.model.workload import RunTime, RunTimeSource
from gpu_core.decisions.policy.run_times import RunTimePolicy
from gpu_core.decisions.scheduling.forecasting.run_times import RunKind, RunTimeHistory
from gpu_core.decisions.scheduling.forecasting.start_times import QueueFeatures

TOTAL_GPUS = 640
RATE_WINDOW_S = 3_600.0
_POLICY = RunTimePolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A rule of who starts next."""

    name: str
    key: Callable[[Job], tuple[float, ...]]
    fills_gaps: bool
    """Any run that fits may start, also past the head of the queue."""
    reserves: bool
    """Only those who do not delay the head may start past it."""
    knows_durations: bool
    """The rule needs run times, so owners stated them, exactly."""


ORDERS = (
    Order(name="fifo", key=lambda j: (), fills_gaps=False, reserves=False, knows_durations=False),
    Order(name="greedy", key=lambda j: (), fills_gaps=True, reserves=False, knows_durations=False),
    Order(name="easy", key=lambda j: (), fills_gaps=True, reserves=True, knows_durations=True),
    Order(
        name="sjf",
        key=lambda j: (j.duration_s,),
        fills_gaps=False,
        reserves=False,
        knows_durations=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Queued:
    """A job that did not start when it was submitted, and what was known then."""

    job: Job
    features: QueueFeatures


@dataclass(frozen=True, slots=True)
class Started:
    """A job that had waited has started."""

    job: Job
    waited_s: float


@dataclass(slots=True)
class _Line:
    order: Order
    waiting: list[tuple[tuple[float, ...], Job]] = field(default_factory=list)
    running: list[tuple[float, int, Job]] = field(default_factory=list)
    free_gpus: int = TOTAL_GPUS
    starts: deque[tuple[float, int]] = field(default_factory=deque)
    started_gpus: int = 0
    history: RunTimeHistory = field(default_factory=RunTimeHistory)
    thought: dict[int, RunTime | None] = field(default_factory=dict)

    def finish_until(self, now_s: float) -> None:
        while self.running and self.running[0][0] <= now_s:
            _, _, job = heapq.heappop(self.running)
            self.free_gpus += job.gpus
            self.history.observe(RunKind(team=job.team, gpus=job.gpus), job.duration_s)

    def submit(self, job: Job) -> None:
        self.thought[job.job_id] = (
            RunTime(median_s=job.duration_s, upper_s=job.duration_s, source=RunTimeSource.STATED)
            if self.order.knows_durations
            else self.history.learned(RunKind(team=job.team, gpus=job.gpus), _POLICY)
        )
        insort(self.waiting, ((*self.order.key(job), job.submit_s, job.job_id), job))

    def start_who_may(self, now_s: float) -> list[Job]:
        started: list[Job] = []
        at = 0
        room = None  # GPUs and seconds that the head leaves to others; None: not yet reserved
        while at < len(self.waiting) and self.free_gpus > 0:
            job = self.waiting[at][1]
            if job.gpus <= self.free_gpus and (room is None or self._fits(job, now_s, room)):
                del self.waiting[at]
                self._start(job, now_s)
                started.append(job)
                if room is not None and now_s + job.duration_s > room[0]:
                    room = (room[0], room[1] - job.gpus)
                continue
            if not self.order.fills_gaps:
                break
            if self.order.reserves and room is None:
                room = self._reservation(job)
            at += 1
        return started

    def _start(self, job: Job, now_s: float) -> None:
        self.free_gpus -= job.gpus
        heapq.heappush(self.running, (now_s + job.duration_s, job.job_id, job))
        self.starts.append((now_s, job.gpus))
        self.started_gpus += job.gpus

    def _fits(self, job: Job, now_s: float, room: tuple[float, int]) -> bool:
        return now_s + job.duration_s <= room[0] or job.gpus <= room[1]

    def _reservation(self, head: Job) -> tuple[float, int]:
        free = self.free_gpus
        for end_s, _, job in sorted(self.running):
            free += job.gpus
            if free >= head.gpus:
                return end_s, free - head.gpus
        raise AssertionError("larger than the cluster")

    def features(self, job: Job, now_s: float) -> QueueFeatures:
        place = bisect_left(self.waiting, ((*self.order.key(job), job.submit_s, job.job_id), job))
        ahead = [other for _, other in self.waiting[:place]]
        known = [(other, self.thought[other.job_id]) for other in ahead]
        while self.starts and self.starts[0][0] < now_s - RATE_WINDOW_S:
            self.started_gpus -= self.starts.popleft()[1]
        return QueueFeatures(
            gpus_ahead=sum(other.gpus for other in ahead),
            gpu_s_ahead=sum(o.gpus * t.median_s for o, t in known if t is not None),
            gpus_wanted=job.gpus,
            total_gpus=TOTAL_GPUS,
            started_gpus_per_s=self.started_gpus / RATE_WINDOW_S,
            head_waited_s=now_s - self.waiting[0][1].submit_s,
        )


def replay(jobs: list[Job], order: Order) -> Iterator[Queued | Started]:
    """What a forecaster would see of this month, in the order of time."""
    line = _Line(order)
    arrivals = deque((s, list(group)) for s, group in groupby(jobs, key=lambda j: j.submit_s))
    while arrivals or line.waiting:
        next_s = min(
            arrivals[0][0] if arrivals else float("inf"),
            line.running[0][0] if line.running else float("inf"),
        )
        line.finish_until(next_s)
        new = arrivals.popleft()[1] if arrivals and arrivals[0][0] == next_s else []
        for job in new:
            line.submit(job)
        started = line.start_who_may(next_s)
        at_once = {job.job_id for job in started if job.submit_s == next_s}
        yield from (Started(j, next_s - j.submit_s) for j in started if j.job_id not in at_once)
        for job in new:
            if job.job_id not in at_once:
                yield Queued(job, line.features(job, next_s))
