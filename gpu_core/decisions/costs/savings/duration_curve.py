"""For how long was a number of machines there? What decides whether a commitment pays off."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from fractions import Fraction

from gpu_core.decisions.costs.savings.price_steps import duration_us
from gpu_core.decisions.costs.usage.usage_cost import Window


def time_with_at_least(stays: Iterable[Window]) -> tuple[int, ...]:
    """For how many microseconds were at least 1, 2, … of these there at once?

    The load duration curve of power grids, for machines.
    """
    totals: dict[int, int] = {}
    for number, held_us in _levels(stays):
        totals[number] = totals.get(number, 0) + held_us
    curve, longer = [], 0
    for number in range(max(totals, default=0), 0, -1):
        longer += totals.get(number, 0)
        curve.append(longer)
    return tuple(reversed(curve))


def machines_at_once(stays: Iterable[Window]) -> Iterator[int]:
    """How many were there at once, at each time at which that changed?"""
    return (number for number, held_us in _levels(stays) if held_us)


def _levels(stays: Iterable[Window]) -> Iterator[tuple[int, int]]:
    """The number of stays at one time, and for how many microseconds."""
    changes: dict[datetime, int] = {}
    for stay in stays:
        changes[stay.start] = changes.get(stay.start, 0) + 1
        changes[stay.end] = changes.get(stay.end, 0) - 1
    number, last = 0, None
    for moment in sorted(changes):
        if last is not None:
            yield number, duration_us(Window(last, moment))
        number, last = number + changes[moment], moment


def worth_committing(
    curve_us: Iterable[int], window_us: int, on_demand: Fraction, committed: Fraction
) -> tuple[int, Fraction]:
    """How many machines are cheaper with a commitment, and how much is saved in the window?

    A machine that is there for a part of the time pays that part of the on-demand price; a
    commitment is paid all the time. So it pays off where the part is over the ratio of the prices.

    Args:
        curve_us: How long at least 1, 2, … machines were there.
        window_us: Length of the window, over 0.
        on_demand: The price of a machine for the whole window.
        committed: The same with a commitment.
    """
    number, saved = 0, Fraction(0)
    for held_us in curve_us:
        gain = on_demand * held_us / window_us - committed
        if gain <= 0:
            break
        number, saved = number + 1, saved + gain
    return number, saved
