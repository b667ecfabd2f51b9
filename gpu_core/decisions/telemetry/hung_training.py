"""Does a run hang, and which of its ranks is at fault?

A collective that is stuck keeps its GPUs at a utilization of 100% and raises no error. So the
signal is the progress that the run itself reports; then the power and the SM activity of its GPUs,
because a kernel that spins draws less than the training did; then its peers, because one rank that
waits makes all others wait.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from gpu_core.decisions.model.units import count, format_duration
from gpu_core.decisions.telemetry.activity import (
    ACTIVE_BYTES_PER_S,
    ACTIVE_CORES,
    LONGEST_GAP,
    RunActivity,
    Signal,
)
from gpu_core.decisions.telemetry.stacks import innermost_frames
from gpu_core.decisions.telemetry.summary import BUSY_RATIO
from gpu_core.decisions.telemetry.use_text import format_ratio

SHORTEST_STUCK_S = 120.0
"""Shorter pauses are common: a garbage collection, a slow read, a compilation."""

_STEPS = 5.0
_PAUSES = 2.0

_PHASE_S = 1800.0
"""Of an announced save or restore: 140 GB at 100 MB/s take 1,400 s."""

_WORKING_FACTOR, _SHORTEST_WORKING_S = 10.0, 3600.0

# A kernel that spins in a collective uses few multiprocessors, and a third to two thirds of the
# training's power; an evaluation uses them about as the training does. Of power the limit is next
# to the two thirds: to take work for a hang is worse than to name a hang an hour later.
_WORKING_SM, _WORKING_POWER = 0.5, 0.7

# One thread that spins takes one core; loading and saving in parallel take more.
_WORKING_CORES = 1.5
_SPINNING_CORES = 0.8
_SPINNING_RATIO = 0.95

_COLLECTIVE = re.compile(
    r"all_?reduce|all_?gather|reduce_scatter|broadcast|barrier|all_to_all|distributed_c10d|"
    r"synchronize|_backward",
    re.I,
)
_LOADER = re.compile(
    r"dataloader|_next_data|multiprocessing/(?:queues|connection)|/queue\.py", re.I
)
_TOP_FRAMES = 6


class HangKind(StrEnum):
    """The way in which a run hangs. A stable contract: metrics and alerts match on it."""

    SPINNING = "spinning"
    """A kernel or a thread runs and does not end."""
    DEADLOCKED = "deadlocked"
    """Nothing runs: its processes wait for each other or for something outside."""
    SLOW_RANK = "slow-rank"
    """One rank still works, and all others wait for it."""
    DEAD_LOADER = "dead-loader"
    """A rank waits for data that does not come."""


_HOW = {
    HangKind.SPINNING: "spins",
    HangKind.DEADLOCKED: "is waiting with no work running",
    HangKind.SLOW_RANK: "is still processing a step that the others completed",
    HangKind.DEAD_LOADER: "is waiting for its data loader",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load of a rank's GPU and processes at one moment. None means unknown."""

    utilization_ratio: float | None = None
    sm_active_ratio: float | None = None
    power_ratio: float | None = None
    cores: float | None = None
    """Processor cores for each rank."""
    io_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLevel:
    """The activity of a rank's GPU while it made steps: means over observations."""

    observations: int = 0
    sm_active_ratio: float | None = None
    power_ratio: float | None = None

    def with_load(self, load: Load) -> "WorkLevel":
        """With one more observation, between two of which a step was made."""
        return WorkLevel(
            observations=self.observations + 1,
            sm_active_ratio=self._mean(self.sm_active_ratio, load.sm_active_ratio),
            power_ratio=self._mean(self.power_ratio, load.power_ratio),
        )

    def _mean(self, mean: float | None, value: float | None) -> float | None:
        if mean is None or value is None:
            return value if mean is None else mean
        return mean + (value - mean) / min(self.observations + 1, 50)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankState:
    """The state of one rank, as far as it is known."""

    rank: int
    node: str
    gpu_id: str | None
    steps: int
    progressed_at: datetime
    median_step_s: float | None
    longest_step_s: float | None
    phase: str | None = None
    load: Load | None = None
    """Now; None: not sampled, or too long ago."""
    level: WorkLevel = WorkLevel()
    stack: str = ""
    """Of its threads, the main one first; empty: not taken."""
    ranks: int = 1
    """How many the run has; those of other pods report only once they are quiet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HangFinding:
    """A run that hangs."""

    kind: HangKind
    ranks: tuple[int, ...]
    """Those at fault; all, where none stands out."""
    since: datetime
    """Its last progress."""
    text: str
    """One sentence that names rank, node, GPU and signals."""


def load_of(
    activity: RunActivity,
    rank: int,
    ranks: int,
    now: datetime,
    *,
    gpu_id: str | None = None,
    in_rank_order: bool = True,
) -> Load | None:
    """The load of the GPU and the processes of this rank; None: its samples are late.

    Args:
        activity: Of all GPUs and processes of the attempt on this machine.
        rank: From 0; its GPU is that of this place, where there is one for each rank.
        ranks: How many there are, 1 or more.
        now: Aware.
        gpu_id: Its GPU; None: unknown, or all that the attempt has where ranks do not say.
        in_rank_order: Whether the GPUs of the attempt are in the order of its ranks.
    """
    if not -LONGEST_GAP <= now - activity.at <= LONGEST_GAP:
        return None
    own = tuple(gpu for gpu in activity.gpus if gpu.gpu_id == gpu_id)
    has_own = in_rank_order and len(activity.gpus) == ranks
    gpus = own or ((activity.gpus[rank],) if has_own else activity.gpus)
    cores, moved = activity.cores.value, activity.io_bytes_per_s.value
    return Load(
        utilization_ratio=_highest([gpu.utilization for gpu in gpus]),
        sm_active_ratio=_highest([gpu.sm_active for gpu in gpus]),
        power_ratio=_highest([gpu.power for gpu in gpus]),
        cores=None if cores is None else cores / ranks,
        io_bytes_per_s=moved,
    )


def _highest(signals: Sequence[Signal]) -> float | None:
    known = [signal.value for signal in signals if signal.value is not None]
    return max(known, default=None)


class Steps(Protocol):
    """The steps of a rank, as `RankState` has them."""

    @property
    def progressed_at(self) -> datetime:
        """The last step, save or batch of an evaluation."""
        ...

    @property
    def median_step_s(self) -> float | None:
        """The median time of a step; None if there are too few steps."""
        ...

    @property
    def longest_step_s(self) -> float | None:
        """The longest time of a step; None if there are too few steps."""
        ...

    @property
    def phase(self) -> str | None:
        """The phase that it is in instead of steps."""
        ...


def makes_no_steps(rank: Steps, now: datetime) -> bool:
    """Has this rank made no step for so long that its stacks are worth taking?"""
    if rank.phase == "ended":
        return False
    limit_s = stuck_after_s(rank, None) or SHORTEST_STUCK_S
    return (now - rank.progressed_at).total_seconds() > limit_s


def stuck_after_s(rank: Steps, given_s: float | None) -> float | None:
    """The time without a step after which this rank counts as stuck; None: it is not known yet.

    Args:
        rank: With what its own steps took.
        given_s: What the policy says; None: derived from its steps.
    """
    if rank.phase in ("saving", "restoring"):
        return max(_PHASE_S, given_s or 0.0)
    if given_s is not None:
        return given_s
    if rank.median_step_s is None:
        return None
    longest_s = rank.longest_step_s or 0.0
    return max(SHORTEST_STUCK_S, _STEPS * rank.median_step_s, _PAUSES * longest_s)


def find_hang(
    ranks: Sequence[RankState], given_s: float | None, now: datetime
) -> HangFinding | None:
    """Does this run hang?

    What works without steps, such as an evaluation that is not announced, gets ten times as long,
    and an hour at least. So does a rank of whose GPU and processes nothing is known: what is
    missing is no reason to act.

    Args:
        ranks: Those that report their progress; none, and it is unknown.
        given_s: The policy's `stuck_after`; None: derived.
        now: Aware.
    """
    going = [rank for rank in ranks if rank.phase != "ended"]
    stuck = _stuck(going, given_s, now)
    if not stuck:
        return None
    faulty = _faulty(going, stuck)
    kind = _kind(faulty, going)
    since = max(rank.progressed_at for rank in faulty)
    return HangFinding(
        kind=kind,
        ranks=tuple(rank.rank for rank in faulty),
        since=since,
        text=_text(kind, faulty, going, max(rank.ranks for rank in ranks) - len(ranks), now),
    )


def _stuck(going: Sequence[RankState], given_s: float | None, now: datetime) -> list[RankState]:
    """The ranks that make no step for too long.

    Where one of them works, the others may wait for it: it alone may evaluate or save.
    """
    limits = {rank.rank: stuck_after_s(rank, given_s) for rank in going}
    quiet_s = {rank.rank: (now - rank.progressed_at).total_seconds() for rank in going}

    def is_over(rank: RankState, factor: float, least_s: float) -> bool:
        limit_s = limits[rank.rank]
        return limit_s is not None and quiet_s[rank.rank] > max(factor * limit_s, least_s)

    over = [rank for rank in going if is_over(rank, 1.0, 0.0)]
    if any(rank.phase is not None for rank in going if rank not in over):
        return []
    if given_s is None and any(rank.load is None or _works(rank) for rank in over):
        return [rank for rank in over if is_over(rank, _WORKING_FACTOR, _SHORTEST_WORKING_S)]
    return over


def _works(rank: RankState) -> bool:
    """Does it work, though it makes no step?"""
    load = rank.load
    if load is None:
        return False
    if (load.io_bytes_per_s or 0.0) >= ACTIVE_BYTES_PER_S:
        return True
    if (load.cores or 0.0) >= _WORKING_CORES:
        return True
    return _gpu_works(rank)


def _gpu_works(rank: RankState) -> bool:
    """Does its GPU work as it did in steps?"""
    load, level = rank.load, rank.level
    if load is None:
        return False
    if load.sm_active_ratio is not None and level.sm_active_ratio:
        is_at_level = load.sm_active_ratio >= _WORKING_SM * level.sm_active_ratio
        return is_at_level and load.sm_active_ratio >= BUSY_RATIO
    if load.power_ratio is not None and level.power_ratio:
        is_busy = (load.utilization_ratio or 0.0) >= BUSY_RATIO
        return is_busy and load.power_ratio >= _WORKING_POWER * level.power_ratio
    # What it did in steps is unknown: a GPU that runs something may work.
    return (load.utilization_ratio or 0.0) >= BUSY_RATIO


def _faulty(going: Sequence[RankState], stuck: Sequence[RankState]) -> list[RankState]:
    """The ranks at fault: those behind, else the odd ones, else all that are stuck."""
    if len(going) == 1:
        return list(stuck)
    fewest = min(rank.steps for rank in going)
    behind = [rank for rank in going if rank.steps == fewest]
    if len(behind) < len(going):
        return behind
    for is_odd in (_misses_collective, _leaves_gpu_idle):
        odd = [rank for rank in going if is_odd(rank)]
        if 0 < len(odd) <= len(going) / 2:
            return odd
    return list(stuck)


def _misses_collective(rank: RankState) -> bool:
    return bool(rank.stack) and not _is_in(_COLLECTIVE, rank)


def _is_in(functions: re.Pattern[str], rank: RankState) -> bool:
    return functions.search(innermost_frames(rank.stack, _TOP_FRAMES)) is not None


def _leaves_gpu_idle(rank: RankState) -> bool:
    load = rank.load
    if load is None or load.utilization_ratio is None:
        return False
    return load.utilization_ratio < BUSY_RATIO


def _kind(faulty: Sequence[RankState], going: Sequence[RankState]) -> HangKind:
    if any(_is_in(_LOADER, rank) for rank in faulty):
        return HangKind.DEAD_LOADER
    is_single = len(faulty) < len(going)
    loads = [rank.load for rank in faulty if rank.load is not None]
    computes = any((load.cores or 0.0) >= _SPINNING_CORES for load in loads)
    if is_single and (computes or any(_works(rank) for rank in faulty)):
        return HangKind.SLOW_RANK
    is_running = any((load.utilization_ratio or 0.0) >= _SPINNING_RATIO for load in loads)
    return HangKind.SPINNING if is_running or computes else HangKind.DEADLOCKED


def _text(
    kind: HangKind,
    faulty: Sequence[RankState],
    going: Sequence[RankState],
    unknown: int,
    now: datetime,
) -> str:
    first = faulty[0]
    since = max(rank.progressed_at for rank in faulty)
    who = _names(faulty)
    parts = [
        f"No progress for {format_duration((now - since).total_seconds())} after step "
        f"{first.steps}: {who} {_HOW[kind]}"
    ]
    waiting = len(going) - len(faulty)
    if waiting:
        wait = "waits" if waiting == 1 else "wait"
        parts.append(f"{count(waiting, 'other rank')} {wait} for it")
    elif unknown > 0:
        parts.append(f"of {count(unknown, 'other rank')}, which may be at fault, nothing is known")
    if first.median_step_s is not None:
        parts.append(f"its steps took {first.median_step_s:.3g} s")
    load = first.load
    if load is not None:
        parts.append(f"utilization {format_ratio(load.utilization_ratio)}")
        if load.sm_active_ratio is not None:
            parts.append(f"SM activity {format_ratio(load.sm_active_ratio)}")
        if load.power_ratio is not None:
            parts.append(f"power {format_ratio(load.power_ratio)} of the limit")
        if load.cores is not None:
            is_quiet = load.cores < ACTIVE_CORES
            parts.append("processor quiet" if is_quiet else f"{load.cores:.1f} processor cores")
    return f"{', '.join(parts)}."


def _names(faulty: Collection[RankState]) -> str:
    shown = [
        f"rank {rank.rank} on {rank.node}" + (f" ({rank.gpu_id})" if rank.gpu_id else "")
        for rank in faulty
    ]
    more = len(shown) - 3
    return ", ".join(shown[:3]) + (f" and {more} others" if more > 0 else "")


def with_stacks(ranks: Sequence[RankState], stacks: dict[int, str]) -> tuple[RankState, ...]:
    """The same ranks, with the stacks that were taken of them."""
    return tuple(replace(rank, stack=stacks.get(rank.rank, "")) for rank in ranks)
