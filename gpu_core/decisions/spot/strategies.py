"""The strategies: what to do while spot is not in use and no deadline forces anything.

They are asked only where both answers are safe (see `decide`), and never while a spot instance
runs: spot is used until it is taken away.

Greedy and Uniform Progress are those of Wu et al., "Can't Be Late" (NSDI'24). Of its Uniform
Progress one reading gives the paper's Table 3: on-demand, once started, is left for spot only,
never for idleness. `patience` is ours; `DESIGN.md` derives it.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from gpu_core.decisions.policy.capacity import StrategyName
from gpu_core.decisions.spot.state import Capacity, CapacityState, RemainingWork, Rule
from gpu_core.decisions.spot.survival import (
    MEAN_UP_S,
    MEAN_UP_WEIGHT,
    age_at_hazard_s,
    hazard_per_s,
    longest_wait_s,
)

RESERVED_CHANGES = 4
"""Slack for this many changeovers is never waited away. 0, 2, 4 and 6 were tried on us-west-2a."""
RESERVED_SHORT_CHANGES = 10
RESERVED_SHORT_S = 48 * 60.0
"""For short changeovers it grows up to this: a wait may be a tick longer than was meant,
which they do not cover. 4, 6, 10 and 20 were tried on us-west-2a at 3 and 6 minutes."""
CHANGES_PER_CYCLE = 0.5
"""The changeovers of one cycle of spot: there and back in the worst case, none where on-demand runs
through a short time up. 0, 1/2, 1 and 3/2 were tried on us-west-2a."""
ENOUGH_LIVES = 5
"""Lives from which a stay is estimated; the prior, a quarter of one, would be under 5%
of them."""
HIGHEST_SLACK_PRICE = 5.0
"""In spot prices. 1, 3, 5, 6 and 10 were tried on us-west-2a; 3 to 6 are alike."""


class StrategyAdvice(NamedTuple):
    """The advice of a strategy."""

    capacity: Capacity
    rule: Rule
    expected_progress_s: float | None = None
    patience_s: float | None = None
    rest: RemainingWork | None = None
    stay_work_s: float | None = None


Strategy = Callable[[CapacityState], StrategyAdvice]


def greedy(state: CapacityState) -> StrategyAdvice:
    """Wait for spot, however long; on-demand is only for the safety net, and then to the end."""
    if state.current is Capacity.ON_DEMAND:
        return StrategyAdvice(Capacity.ON_DEMAND, Rule.STAY_ON_DEMAND)
    return _take_spot(state) or StrategyAdvice(Capacity.IDLE, Rule.WAIT_FOR_SPOT)


def uniform_progress(state: CapacityState) -> StrategyAdvice:
    """Keep up with a straight line to the deadline; leave on-demand when two changes ahead."""
    if state.current is not Capacity.ON_DEMAND:
        return _take_spot(state) or _by_line(state)
    return _by_line(state, lead_s=2 * state.changeover_s, ahead=Capacity.SPOT)


def plain_uniform_progress(state: CapacityState) -> StrategyAdvice:
    """The same, but leave on-demand for any spot."""
    if spot := _take_spot(state):
        return spot
    if state.current is Capacity.ON_DEMAND:
        return StrategyAdvice(Capacity.ON_DEMAND, Rule.STAY_ON_DEMAND)
    return _by_line(state)


def patience(state: CapacityState) -> StrategyAdvice:
    """Wait for spot as long as slack is cheap; leave on-demand once spot has proved itself.

    Without prices it cannot weigh anything, and is Uniform Progress.
    """
    if state.price_ratio is None:
        return uniform_progress(state)
    gap_s = gap_patience_s(state)
    if state.current is not Capacity.ON_DEMAND:
        if not state.spot.is_up:
            return _wait_or_not(state, gap_s)
        if not pays(state, state.price_ratio):
            return StrategyAdvice(Capacity.ON_DEMAND, Rule.SPOT_TOO_SHORT)
        return StrategyAdvice(Capacity.SPOT, Rule.TAKE_SPOT)
    if not state.spot.is_up:
        return StrategyAdvice(Capacity.ON_DEMAND, Rule.STAY_ON_DEMAND)
    return _change_or_not(state, gap_s, state.price_ratio)


STRATEGIES: Mapping[StrategyName, Strategy] = {
    "patience": patience,
    "uniform-progress": uniform_progress,
    "plain-uniform-progress": plain_uniform_progress,
    "greedy": greedy,
}


def gap_patience_s(state: CapacityState) -> float:
    """For how long is spot waited for, each time that it is unavailable?

    As long as uses up the slack evenly until the deadline: one cycle of spot may lose its part of
    the slack, and what its changeovers leave of that can be waited.

    Returns:
        Seconds; infinite: for as long as it takes.
    """
    slack_s, time_left_s = state.slack_s, state.time_left_s
    if slack_s is None or time_left_s is None:
        return math.inf
    if time_left_s <= 0:
        return 0.0
    short_s = min(RESERVED_SHORT_CHANGES * state.changeover_s, RESERVED_SHORT_S)
    reserve_s = max(RESERVED_CHANGES * state.changeover_s, short_s)
    slack_per_cycle_s = max(0.0, slack_s - reserve_s) / time_left_s * state.spot.cycle_s
    changes_s = CHANGES_PER_CYCLE * state.changeover_s
    return longest_wait_s(state.spot.away_shape, slack_per_cycle_s - changes_s)


def slack_price(state: CapacityState, gap_s: float, price_ratio: float) -> float:
    """The worth of a second of slack, in seconds of spot.

    At the end of one's patience a further moment of waiting is worth just what it costs. Spot comes
    back in it with the hazard of that age, and then saves a changeover to on-demand: its price and
    its slack. So `price = hazard × changeover × (ratio + price)`.

    Args:
        gap_s: The patience with a gap.
        price_ratio: On-demand by spot price.
    """
    if math.isinf(gap_s):
        return 0.0
    likely = hazard_per_s(state.spot.away_shape, gap_s) * state.changeover_s
    if likely >= 1:
        return HIGHEST_SLACK_PRICE
    return min(HIGHEST_SLACK_PRICE, price_ratio * likely / (1 - likely))


def proof_age_s(state: CapacityState, gap_s: float, price_ratio: float) -> float:
    """How long must spot have been up for on-demand to be left for it?

    Spot saves `ratio - 1` a second. If it goes at once, the change there was in vain, paid at the
    spot price, and the change back at on-demand's, and both took slack. So spot is old enough when
    `hazard × changeover × (1 + ratio + 2 × price of slack) <= ratio - 1`.

    Args:
        gap_s: The patience with a gap; it says what slack is worth.
        price_ratio: On-demand by spot price.

    Returns:
        Seconds; infinite: there is too little work left for a change to pay.
    """
    saved = price_ratio - 1
    if saved * state.remaining_work_s <= state.changeover_s:
        return math.inf
    lost_s = state.changeover_s * (1 + price_ratio + 2 * slack_price(state, gap_s, price_ratio))
    return age_at_hazard_s(state.spot.up_shape, saved / lost_s) if lost_s else 0.0


def pays(state: CapacityState, price_ratio: float) -> bool:
    """Is a stay on the spot that is up thought to save more than it costs?

    A stay of `t` seconds costs `t` and does `t - changeover` of work, which would cost `ratio` on
    on-demand. One that does the rest of the work also saves the start on on-demand. Over the latest
    lives that got as old as this one, and part of an ordinary one, the savings must be the larger.

    Args:
        price_ratio: On-demand by spot price.
    """
    age_s, changeover_s = state.spot.age_s, state.changeover_s
    whole_s = state.remaining_work_s + changeover_s
    start_s = 0.0 if state.current is Capacity.ON_DEMAND else changeover_s

    def saved(stay_s: float) -> float:
        if stay_s >= whole_s:
            return price_ratio * (state.remaining_work_s + start_s) - whole_s
        return price_ratio * max(0.0, stay_s - changeover_s) - stay_s

    lives_s = (life_s - age_s for life_s in state.spot.up.latest_s if life_s > age_s)
    return MEAN_UP_WEIGHT * saved(MEAN_UP_S) + sum(map(saved, lives_s)) > 0


def stay_work_s(state: CapacityState) -> float:
    """How much work is a stay on the spot that is up expected to do?

    The mean over the latest lives that got as old as this one, each less a changeover. Fewer than
    five of them are mixed with part of an ordinary life.

    Returns:
        Seconds of work; 0: those lives all ended within a changeover.
    """
    age_s = state.spot.age_s
    lives = [(life_s - age_s, 1.0) for life_s in state.spot.up.latest_s if life_s > age_s]
    if len(lives) < ENOUGH_LIVES:
        lives.append((MEAN_UP_S, MEAN_UP_WEIGHT))
    done_s = sum(
        weight * min(state.remaining_work_s, max(0.0, life_s - state.changeover_s))
        for life_s, weight in lives
    )
    return done_s / sum(weight for _, weight in lives)


def _take_spot(state: CapacityState) -> StrategyAdvice | None:
    return StrategyAdvice(Capacity.SPOT, Rule.TAKE_SPOT) if state.spot.is_up else None


def _by_line(
    state: CapacityState, lead_s: float = 0.0, ahead: Capacity = Capacity.IDLE
) -> StrategyAdvice:
    """On-demand below the line; above it `ahead`, if that is available."""
    if ahead is Capacity.SPOT and not state.spot.is_up:
        return StrategyAdvice(Capacity.ON_DEMAND, Rule.STAY_ON_DEMAND)
    if state.time_left_s is None:
        return StrategyAdvice(ahead, Rule.AHEAD)
    whole_s = state.elapsed_s + state.time_left_s
    expected_s = (state.elapsed_s + lead_s) * state.work_s / whole_s
    if state.work_s - state.remaining_work_s < expected_s:
        return StrategyAdvice(Capacity.ON_DEMAND, Rule.BEHIND, expected_progress_s=expected_s)
    return StrategyAdvice(ahead, Rule.AHEAD, expected_progress_s=expected_s)


def _wait_or_not(state: CapacityState, gap_s: float) -> StrategyAdvice:
    # Waiting is in whole looks: one that does not fit any more is not started.
    patience_s = None if math.isinf(gap_s) else gap_s
    if state.spot.age_s + state.look_s < gap_s:
        return StrategyAdvice(Capacity.IDLE, Rule.WAIT_FOR_SPOT, patience_s=patience_s)
    return StrategyAdvice(Capacity.ON_DEMAND, Rule.OUT_OF_PATIENCE, patience_s=patience_s)


def _change_or_not(state: CapacityState, gap_s: float, price_ratio: float) -> StrategyAdvice:
    proof_s = proof_age_s(state, gap_s, price_ratio)
    if math.isinf(proof_s):
        return StrategyAdvice(Capacity.ON_DEMAND, Rule.STAY_ON_DEMAND)
    # It came at some moment between two looks: half a look before the first, in the mean.
    if state.spot.age_s + state.look_s / 2 >= proof_s and pays(state, price_ratio):
        return StrategyAdvice(Capacity.SPOT, Rule.SPOT_PROVEN, patience_s=proof_s)
    return StrategyAdvice(Capacity.ON_DEMAND, Rule.SPOT_UNPROVEN, patience_s=proof_s)
