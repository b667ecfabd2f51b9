"""Histories that could follow, from the days of one: a bootstrap."""

from collections.abc import Sequence
from datetime import date

import numpy as np

from gpu_core.decisions.optimization.proposals.run_facts import RunFact


def by_day(facts: Sequence[RunFact], first: date, last: date) -> list[list[int]]:
    """The runs, by index, that were submitted on each day from the first to the last."""
    days: list[list[int]] = [[] for _ in range((last - first).days + 1)]
    for index, fact in enumerate(facts):
        offset = (fact.day - first).days
        if 0 <= offset < len(days):
            days[offset].append(index)
    return days


def future_history(
    days: Sequence[Sequence[int]], length: int, rng: np.random.Generator
) -> list[int]:
    """The entries of as many days to come.

    Days are drawn twice with replacement: a history as long as the one that was seen, then the days
    to come from it. Drawn once, they vary as if the days that were seen were all that can be.

    Args:
        days: The entries of each day of the history, one day at least.
        length: Days of the new history.
        rng: Seeded.
    """
    could_be = rng.integers(len(days), size=len(days))
    chosen = could_be[rng.integers(len(could_be), size=length)]
    return [entry for day in chosen for entry in days[day]]
