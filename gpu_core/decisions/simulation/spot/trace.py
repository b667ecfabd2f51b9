"""Spot traces: was spot available, tick by tick."""

import random
from dataclasses import dataclass

from gpu_core.decisions.model.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotTrace:
    """The number of spot nodes that were available in one place, tick by tick."""

    name: str
    tick_s: int
    nodes_up: tuple[int, ...]
    """During [i × tick_s, (i + 1) × tick_s)."""

    def is_up(self, nodes: int = 1) -> tuple[bool, ...]:
        """For each tick, whether a gang of this many nodes could have run on spot.

        Raises:
            InvalidInput: The trace never has this many.
        """
        most = max(self.nodes_up, default=0)
        if nodes > max(most, 1):
            raise InvalidInput(
                "nodes", f"are more than {self.name} ever has", got=nodes, allowed=f"1 to {most}"
            )
        return tuple(up >= nodes for up in self.nodes_up)


def window_starts(trace: SpotTrace, window_ticks: int, number: int, seed: int) -> tuple[int, ...]:
    """The ticks at which the replays of one trace start.

    At random, one in each of equal parts of the trace, so that a few replays already stand for all
    of it; the same for every strategy, others for a trace of another name.

    Raises:
        InvalidInput: The trace is shorter than one replay.
    """
    ticks = len(trace.nodes_up)
    if ticks <= window_ticks:
        raise InvalidInput(
            "deadline-hours",
            f"is longer than {trace.name}",
            got=f"{window_ticks} ticks of {trace.tick_s} s",
            allowed=f"fewer than {ticks} ticks",
        )
    chance = random.Random(f"{seed} {trace.name}")  # noqa: S311 - a repeatable sample
    part = (ticks - window_ticks) / number
    return tuple(int((n + chance.random()) * part) for n in range(number))
