"""One line for each scheduling cycle; cycles in which nothing changes share one."""

import logging
from dataclasses import asdict, dataclass

from gpu_core.decisions.model.units import count

_log = logging.getLogger("prefect.gpu.cycle")

# A quiet pool that is polled each second would write 3,600 equal lines an hour.
LONGEST_SILENCE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleCounts:
    """What one scheduling cycle left behind it."""

    pending: int
    """Runs that wait, held ones among them."""
    held: int
    started: int
    preempted: int
    running: int
    """Attempts that hold GPUs or need none, and have not ended."""
    gpus_used: int
    gpus_free: int
    """Healthy GPUs of which nobody holds a part."""

    @property
    def is_eventful(self) -> bool:
        """Did the cycle itself change something?"""
        return bool(self.started or self.preempted)

    @property
    def standing(self) -> tuple[int, ...]:
        """What was found, whatever the cycle did."""
        return self.pending, self.held, self.running, self.gpus_used, self.gpus_free


class CycleLog:
    """Writes the lines. Each cycle is counted in one, perhaps in that of a later cycle."""

    def __init__(self) -> None:
        self._standing: tuple[int, ...] | None = None
        self._written_at_s = float("-inf")
        self._n_cycles = 0
        self._longest_s = 0.0

    def note(self, counts: CycleCounts, *, duration_s: float, now_s: float) -> None:
        """A cycle has ended.

        Args:
            counts: Of this cycle.
            duration_s: How long it took.
            now_s: By a clock that nobody sets.
        """
        self._n_cycles += 1
        self._longest_s = max(self._longest_s, duration_s)
        is_quiet = counts.standing == self._standing and not counts.is_eventful
        if is_quiet and now_s - self._written_at_s < LONGEST_SILENCE_S:
            return
        fields = {
            "cycles": self._n_cycles,
            **asdict(counts),
            "duration_s": round(duration_s, 3),
            "longest_s": round(self._longest_s, 3),
        }
        _log.info("%s", _text(counts, self._n_cycles, duration_s, self._longest_s), extra=fields)
        self._standing, self._written_at_s = counts.standing, now_s
        self._n_cycles, self._longest_s = 0, 0.0


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
