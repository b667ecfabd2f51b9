"""Fair share: who has used less than others of the shared GPUs comes first.

Shares are compared by decayed usage over weight: what was used a half-life ago counts half.

Why a day: half-lives from an hour to a week, and shares of what is held now (the rule of Kueue and
Volcano), were tried on the first 15 days of the Philly trace of October 2017: 640 GPUs, virtual
clusters entitled in proportion to their nodes, no preemption. A day is within 3% of the best both
in the mean wait and in the largest shortfall, GPU-seconds that a cluster got less than its
entitlement while it waited. Over the whole month that shortfall is 40% of greedy backfill's
(35% in the other half) and the mean wait 26% shorter. What a cluster gets beyond its
entitlement are mostly GPUs that no other team wanted; an order cannot and should not prevent that.

A workload's own size is no part of its key: within a team it would put each gang behind all small
runs, for as long as those keep coming (Volcano's issue 5805 is of that kind).
"""

import math
from collections.abc import Mapping
from typing import Generic, TypeVar

from gpu_core.decisions.model.cluster import PastUsage
from gpu_core.decisions.policy.fair_share import FairSharePolicy

Account = TypeVar("Account")


class Shares:
    """The usage of each team or user, for one cycle: first the past, then what the cycle admits.

    Keys only grow as workloads are admitted.

    Args:
        policy: The rule.
        usage: `gpu_s_by_user` as an up-to-date `UsageMeter` with the policy's half-life gives it.
        gpus_by_group: GPUs that the runs of each sweep hold now.
        worth_per_gpu_s: What a GPU-second counts as in that usage: 1, or its mean price where
            dollars are measured.
    """

    def __init__(
        self,
        policy: FairSharePolicy,
        usage: PastUsage,
        gpus_by_group: Mapping[str, float] | None = None,
        worth_per_gpu_s: float = 1.0,
    ) -> None:
        self._policy = policy
        self._worth_per_gpu_s = worth_per_gpu_s
        self._by_team: dict[str | None, float] = {}
        self._by_user: dict[tuple[str | None, str | None], float] = {}
        self._by_group: dict[str | None, float] = {}
        for (team, user), amount in usage.gpu_s_by_user.items():
            self._charge(team, user, amount)
        for group, gpus in (gpus_by_group or {}).items():
            self._by_group[group] = self._cost(gpus, policy.entry_penalty_s)

    def key(self, team: str | None, user: str | None, group: str | None) -> tuple[float, float]:
        """The sort key of this user's runs.

        Lower comes first; among equals the run that came first.

        A sweep's runs stand behind the other runs of their user by what the sweep holds. So a
        sweep of a thousand runs delays no other user's, and several sweeps gain their user nothing.

        Args:
            team: The run's team; None counts as a team.
            user: The run's user; None counts as a user.
            group: The sweep that the run belongs to; None: none.

        Returns:
            The team's usage over its weight, and the user's usage inside the team.
        """
        of_team = 0.0 if self._policy.by == "user" else self._by_team.get(team, 0.0)
        of_user = self._by_user.get(self._account(team, user), 0.0)
        of_group = 0.0 if group is None else self._by_group.get(group, 0.0)
        return (of_team / self._weight(team), of_user + of_group)

    def admit(
        self,
        team: str | None,
        user: str | None,
        group: str | None,
        gpus: float,
        expected_s: float | None,
    ) -> None:
        """A run of this user starts: charge it at once.

        Args:
            team: As for `key`.
            user: As for `key`.
            group: As for `key`.
            gpus: GPUs over all nodes, shares of GPUs as fractions.
            expected_s: How long it is thought to run; None: unknown. What people say can only
                raise the charge.
        """
        penalty_s = self._policy.entry_penalty_s
        amount = self._cost(gpus, max(penalty_s, expected_s or 0))
        self._charge(team, user, amount)
        if group is not None:
            self._by_group[group] = self._by_group.get(group, 0.0) + self._cost(gpus, penalty_s)

    def _charge(self, team: str | None, user: str | None, amount: float) -> None:
        account = self._account(team, user)
        self._by_team[team] = self._by_team.get(team, 0.0) + amount
        self._by_user[account] = self._by_user.get(account, 0.0) + amount

    def _account(self, team: str | None, user: str | None) -> tuple[str | None, str | None]:
        match self._policy.by:
            case "team":
                return (team, None)
            case "user":
                return (None, user)
            case "team-and-user":
                return (team, user)

    def _weight(self, team: str | None) -> float:
        return 1.0 if team is None else self._policy.weights.get(team, 1.0)

    def _cost(self, gpus: float, seconds: float) -> float:
        return gpus * seconds * self._worth_per_gpu_s


class UsageMeter(Generic[Account]):
    """Decayed usage by account, from starts and stops.

    With K = half-life / ln 2, GPUs held since `s` have by `t` the decayed usage
    `gpus × K × (1 − 2^−((t − s) / half-life))`: a part that stays, and one that decays. The meter
    keeps their sums, so each start and stop costs O(1), and time alone costs nothing.

    Args:
        half_life_s: After this time, usage counts half.
    """

    def __init__(self, half_life_s: float) -> None:
        self._half_life_s = half_life_s
        self._scale_s = half_life_s / math.log(2)
        self._gpus: dict[Account, float] = {}
        self._decaying: dict[Account, tuple[float, float]] = {}

    def start(self, account: Account, gpus: float, at_s: float) -> None:
        """The account holds this many GPUs more from this moment on, in seconds of any clock.

        Where dollars are measured, give the price of what it holds per second instead.
        """
        self._change(account, gpus, at_s)

    def stop(self, account: Account, gpus: float, at_s: float) -> None:
        """The account holds this many GPUs less from this moment on."""
        self._change(account, -gpus, at_s)

    def usage(self, at_s: float) -> dict[Account, float]:
        """The decayed usage of each account up to this moment, with what runs now, in GPU-seconds.

        Args:
            at_s: Not before the last start or stop, in seconds of the same clock.
        """
        usage = {}
        for account, (amount, since_s) in self._decaying.items():
            left = decayed(amount, at_s - since_s, self._half_life_s)
            # Rounding must not leave less than nothing.
            usage[account] = max(0.0, self._gpus[account] * self._scale_s - left)
        return usage

    def _change(self, account: Account, gpus: float, at_s: float) -> None:
        amount, since_s = self._decaying.get(account, (0.0, at_s))
        # News may come late: whichever moment is earlier decays until the later one.
        latest_s = max(at_s, since_s)
        self._gpus[account] = self._gpus.get(account, 0.0) + gpus
        self._decaying[account] = (
            decayed(amount, latest_s - since_s, self._half_life_s)
            + decayed(gpus * self._scale_s, latest_s - at_s, self._half_life_s),
            latest_s,
        )


def decayed(amount: float, elapsed_s: float, half_life_s: float) -> float:
    """What remains of an amount after this time: half after each half-life."""
    return amount * math.exp2(-elapsed_s / half_life_s)
