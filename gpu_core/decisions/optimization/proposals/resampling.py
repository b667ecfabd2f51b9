"""Other histories that could have been, from the days of one: a block bootstrap."""

from collections.abc import Sequence
from datetime import date

import numpy as np

from gpu_core.decisions.optimization.proposals.run_facts import RunFact

BLOCK_DAYS = 7
"""Blocks are weeks, because weekdays and weekends differ."""


def by_day(facts: Sequence[RunFact], first: date, last: date) -> list[list[int]]:
    """Which of these runs were submitted on each day from the first to the last, by index?"""
    days: list[list[int]] = [[] for _ in range((last - first).days + 1)]
    for index, fact in enumerate(facts):
        offset = (fact.day - first).days
        if 0 <= offset < len(days):
            days[offset].append(index)
    return days


def resampled(days: Sequence[Sequence[int]], length: int, rng: np.random.Generator) -> list[int]:
    """The entries of as many days, drawn in blocks of a week.

    The circular block bootstrap: each block begins on any day, and the last day is followed by the
    first (Politis and Romano, "A circular block-resampling procedure for stationary data", in
    Exploring the Limits of Bootstrap, 1992).

    Args:
        days: The entries of each day of the history, one day at least.
        length: Days of the new history.
        rng: Seeded.
    """
    block = min(BLOCK_DAYS, len(days))
    found: list[int] = []
    for begun in range(0, length, block):
        start = int(rng.integers(len(days)))
        for offset in range(min(block, length - begun)):
            found.extend(days[(start + offset) % len(days)])
    return found
