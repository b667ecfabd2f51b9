"""Generated spot traces whose law is known."""

import random

from gpu_core.decisions.simulation.spot.trace import SpotTrace


def renewal_trace(
    *,
    mean_up_s: float,
    mean_away_s: float,
    tail: float,
    ticks: int,
    tick_s: int,
    seed: int,
) -> SpotTrace:
    """A trace whose times up and away are independent, with hazards that fall with age.

    Args:
        mean_up_s: Of the times up.
        mean_away_s: Of the times away.
        tail: The shape of both Lomax laws, over 1; nearer to 1 is a heavier tail.
        tick_s: The length of a tick; a time lasts one at least.
        seed: The same seed gives the same trace.
    """
    chance = random.Random(seed)
    is_up = chance.random() < mean_up_s / (mean_up_s + mean_away_s)
    nodes_up: list[int] = []
    while len(nodes_up) < ticks:
        scale_s = (mean_up_s if is_up else mean_away_s) * (tail - 1)
        life_s = scale_s * ((1 - chance.random()) ** (-1 / tail) - 1)
        nodes_up += [int(is_up)] * max(1, min(round(life_s / tick_s), ticks))
        is_up = not is_up
    return SpotTrace(name=f"renewal-{seed}", tick_s=tick_s, nodes_up=tuple(nodes_up[:ticks]))
