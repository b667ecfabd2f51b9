"""How long did spot of each GPU type live, as the attempts of the ledger show it?

The ledger knows attempts, not machines. A machine is seen from the first attempt on it to the end
of the last, and was interrupted if an attempt on it was. What has its name afterwards is another.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.capacity_life import CapacityLife
from gpu_core.decisions.model.cluster import SPOT
from gpu_core.decisions.model.interruption_hazard import (
    SPOT_PRIOR,
    ObservedLife,
    learned_life,
)
from gpu_core.decisions.model.virtual_nodes import is_machine
from gpu_core.decisions.spot.survival import Lifetimes
from gpu_core.decisions.spot.zones import Stay

_NONE = Lifetimes()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotPast:
    """The past of spot: when it came and went."""

    up: Lifetimes = _NONE
    away: Lifetimes = _NONE
    """From an interruption of a run until it was on spot again."""
    observed_s: float = 0.0

    @classmethod
    def of(cls, pasts: Iterable["SpotPast"]) -> "SpotPast":
        """All of these as one."""
        found = cls()
        for past in pasts:
            found = cls(
                up=found.up.with_others(past.up),
                away=found.away.with_others(past.away),
                observed_s=found.observed_s + past.observed_s,
            )
        return found

    def with_up(self, life: ObservedLife) -> "SpotPast":
        """This and one more life."""
        lives = self.up.ended if life.was_interrupted else self.up.lasted
        return replace(self, up=lives(life.life_s), observed_s=self.observed_s + life.life_s)

    def with_away(self, away_s: float) -> "SpotPast":
        """This and one more time without spot, after which it came back."""
        return replace(self, away=self.away.ended(away_s), observed_s=self.observed_s + away_s)


@dataclass(slots=True)
class _Machine:
    gpu_type: str
    zone: str | None
    began_at: datetime
    until: datetime
    was_interrupted: bool = False

    @property
    def life(self) -> ObservedLife:
        life_s = (self.until - self.began_at).total_seconds()
        return ObservedLife(life_s=max(0.0, life_s), was_interrupted=self.was_interrupted)


def spot_lives(
    attempts: Iterable[Attempt], now: datetime
) -> Mapping[str, tuple[ObservedLife, ...]]:
    """The lives of spot machines that these attempts show, by GPU type.

    Of a gang that was interrupted the first node counts: it is unknown which of them failed.

    Args:
        attempts: Of any runs, in any order; those on other capacity are left out.
        now: Until when an attempt that is open has lived.
    """
    found: dict[str, list[ObservedLife]] = defaultdict(list)
    for machine in _machines(attempts, now):
        found[machine.gpu_type].append(machine.life)
    return {gpu_type: tuple(lives) for gpu_type, lives in found.items()}


def spot_stays(attempts: Iterable[Attempt], now: datetime) -> Mapping[str, tuple[Stay, ...]]:
    """The stays of these spot machines, each with its zone and time, by GPU type.

    Args:
        attempts: As for `spot_lives`. Where the zone is unknown, nothing is known of it.
        now: Until when an attempt that is open has lived.
    """
    found: dict[str, list[Stay]] = defaultdict(list)
    for machine in _machines(attempts, now):
        if machine.zone is not None:
            found[machine.gpu_type].append(
                Stay(
                    zone=machine.zone,
                    began_at=machine.began_at,
                    ended_at=machine.until,
                    was_interrupted=machine.was_interrupted,
                )
            )
    return {gpu_type: tuple(stays) for gpu_type, stays in found.items()}


def _machines(attempts: Iterable[Attempt], now: datetime) -> list[_Machine]:
    on_spot = [
        attempt
        for attempt in attempts
        if attempt.capacity_type == SPOT
        and attempt.gpu_type is not None
        and is_machine(attempt.node)
    ]
    machines: list[_Machine] = []
    current: dict[str, _Machine] = {}
    for attempt in sorted(on_spot, key=lambda a: (a.admitted_at, a.attempt_id)):
        machine = current.get(attempt.node)
        if machine is None or _is_another(machine, attempt):
            machine = _Machine(
                gpu_type=str(attempt.gpu_type),
                zone=attempt.zone,
                began_at=attempt.admitted_at,
                until=attempt.admitted_at,
            )
            current[attempt.node] = machine
            machines.append(machine)
        machine.until = max(machine.until, attempt.released_at or now)
        machine.was_interrupted |= attempt.lost_capacity
    return machines


def _is_another(machine: _Machine, attempt: Attempt) -> bool:
    if machine.gpu_type != attempt.gpu_type:
        return True
    return machine.was_interrupted and attempt.admitted_at >= machine.until


def learned_spot_lives(attempts: Iterable[Attempt], now: datetime) -> Mapping[str, CapacityLife]:
    """How long does spot of these attempts' GPU types live? Others live as the prior says."""
    return {
        gpu_type: learned_life(lives, SPOT_PRIOR)
        for gpu_type, lives in spot_lives(attempts, now).items()
    }


def spot_pasts(attempts: Iterable[Attempt], now: datetime) -> Mapping[str, SpotPast]:
    """The times for which spot of each GPU type came and went, for the runs of these attempts.

    Args:
        attempts: Of any runs, in any order. Of a run that continued on other capacity it is
            unknown when spot would have come back for it.
    """
    found: dict[str, SpotPast] = defaultdict(SpotPast)
    attempts = tuple(attempts)
    for gpu_type, lives in spot_lives(attempts, now).items():
        for life in lives:
            found[gpu_type] = found[gpu_type].with_up(life)
    by_run: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        if attempt.capacity_type == SPOT:
            by_run[attempt.flow_run_id].append(attempt)
    for run in by_run.values():
        for attempt, later in pairwise(sorted(run, key=lambda attempt: attempt.number)):
            if not attempt.lost_capacity or attempt.released_at is None:
                continue
            if attempt.gpu_type is not None and later.number == attempt.number + 1:
                away_s = max(0.0, (later.admitted_at - attempt.released_at).total_seconds())
                found[attempt.gpu_type] = found[attempt.gpu_type].with_away(away_s)
    return dict(found)
