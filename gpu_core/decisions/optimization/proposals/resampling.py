"""Histories that could follow, from the days of one: a bootstrap."""

from collections.abc import Sequence
from datetime import date

import numpy as np

from gpu_core.decisions.optimization.proposals.run_facts import RunFact

_WEEK_DAYS = 7


def by_day(facts: Sequence[RunFact], first: date, last: date) -> list[list[int]]:
    """The runs, by index, that were submitted on each day from the first to the last."""
    days: list[list[int]] = [[] for _ in range((last - first).days + 1)]
    for index, fact in enumerate(facts):
        offset = (fact.day - first).days
        if 0 <= offset < len(days):
            days[offset].append(index)
    return days


def future_history(
    days: Sequence[Sequence[int]], length: int, rng: np.random.Generator, seen: int | None = None
) -> list[int]:
    """The entries of as many days to come.

    Days are drawn twice with replacement: a history as long as the one that was seen, then the days
    to come from it. Drawn once, they vary as if the days that were seen were all that can be.

    Args:
        days: The entries of each day of the history, one day at least.
        length: Days of the new history.
        rng: Seeded.
        seen: The days of the history that was seen; None: each of `days` is one.
    """
    could_be = rng.integers(len(days), size=len(days) if seen is None else seen)
    chosen = could_be[rng.integers(len(could_be), size=length)]
    return [entry for day in chosen for entry in days[day]]


def future_weeks(days: int, length: int, rng: np.random.Generator) -> list[int]:
    """Draw the days to come from the history, where a day resembles the one before it.

    Seven days in a row are drawn together, from any day on: a moving-block bootstrap (Künsch, The
    Annals of Statistics 17, 1989). Each weekday then comes as often as in whole weeks.

    Args:
        days: Days of the history, numbered from 0; the first one follows the last one.
        length: Days to come; both are whole weeks.
        rng: Seeded.
    """
    weeks = [[(first + offset) % days for offset in range(_WEEK_DAYS)] for first in range(days)]
    return future_history(weeks, length // _WEEK_DAYS, rng, seen=days // _WEEK_DAYS)
