"""One line for each scheduling cycle; cycles in which nothing changes share one."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import anyio

from gpu_core.decisions.model.units import count
from gpu_core.worker.operations.own_cpu import OwnCpu
from gpu_core.worker.operations.throttle import Throttle

_log = logging.getLogger("prefect.gpu.cycle")

# A quiet pool that is polled each second would write 3,600 equal lines an hour.
LONGEST_SILENCE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleCounts:
    """The results of one scheduling cycle."""

    pending: int
    """Runs that wait, held ones among them."""
    held: int
    started: int
    preempted: int
    running: int
    """Attempts that hold GPUs or need none, and have not ended."""
    gpus_used: int
    gpus_free: int
    """Healthy GPUs of which no attempt holds a part."""

    @property
    def is_eventful(self) -> bool:
        """Did the cycle itself change something?"""
        return bool(self.started or self.preempted)

    @property
    def standing(self) -> tuple[int, ...]:
        """The inputs of the cycle, without its actions."""
        return self.pending, self.held, self.running, self.gpus_used, self.gpus_free


class StepTimes:
    """How long did each step of one cycle take?

    Attributes:
        seconds: By step, in their order.
    """

    def __init__(self, own: OwnCpu) -> None:
        self.seconds: dict[str, float] = {}
        self._own = own

    @property
    def cpu_s(self) -> float:
        """How much CPU time has the cycle itself used until its last wait?

        A cycle that takes longer than that waited: for an answer of Prefect, the ledger or the
        cluster, for what else the worker does meanwhile, or for the CPU of a busy machine.
        """
        return self._own.seconds

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Time what the block does; a step that fails is timed too."""
        began_s = anyio.current_time()
        try:
            yield
        finally:
            self.seconds[step] = anyio.current_time() - began_s


class CycleLog:
    """Writes the lines. Each cycle is counted in one, perhaps in that of a later cycle."""

    def __init__(self) -> None:
        self._standing: tuple[int, ...] | None = None
        self._silence = Throttle(LONGEST_SILENCE_S)
        self._n_cycles = 0
        self._longest_s = 0.0
        self._longest_cpu_s = 0.0

    def note(
        self, counts: CycleCounts, steps_s: Mapping[str, float], cpu_s: float, *, now_s: float
    ) -> None:
        """A cycle has ended.

        Args:
            counts: Of this cycle.
            steps_s: How long each of its steps took. They go to the log at debug, and into the
                fields of the line.
            cpu_s: The CPU time that the cycle itself used.
            now_s: By a monotonic clock.
        """
        duration_s = sum(steps_s.values())
        rounded_s = {step: round(seconds, 3) for step, seconds in steps_s.items()}
        _log.debug(
            "Steps of the cycle: %s",
            ", ".join(f"{n}. {step} {s:.3f} s" for n, (step, s) in enumerate(rounded_s.items(), 1)),
        )
        self._n_cycles += 1
        self._longest_s = max(self._longest_s, duration_s)
        self._longest_cpu_s = max(self._longest_cpu_s, cpu_s)
        is_quiet = counts.standing == self._standing and not counts.is_eventful
        if is_quiet and not self._silence.is_due(now_s):
            return
        fields = {
            "cycles": self._n_cycles,
            **asdict(counts),
            "duration_s": round(duration_s, 3),
            "longest_s": round(self._longest_s, 3),
            "cpu_s": round(cpu_s, 3),
            "longest_cpu_s": round(self._longest_cpu_s, 3),
            "steps_s": rounded_s,
        }
        _log.info("%s", _text(counts, self._n_cycles, duration_s, self._longest_s), extra=fields)
        self._standing = counts.standing
        self._silence.start(now_s)
        self._n_cycles, self._longest_s, self._longest_cpu_s = 0, 0.0, 0.0


def _text(counts: CycleCounts, n_cycles: int, duration_s: float, longest_s: float) -> str:
    took = f"{duration_s:.3f} s"
    if n_cycles > 1:
        took = f"{n_cycles} cycles of at most {longest_s:.3f} s, the last one {took}"
    all_gpus = count(counts.gpus_used + counts.gpus_free, "GPU")
    return (
        f"Cycle: {counts.pending} pending ({counts.held} held), {counts.started} started, "
        f"{counts.preempted} preempted, {counts.running} running; "
        f"{counts.gpus_used} of {all_gpus} used, {counts.gpus_free} free; {took}"
    )
