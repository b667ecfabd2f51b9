"""How long did spot of each GPU type live, as the attempts of the ledger show it?

The ledger knows attempts, not machines. A machine is seen from the first attempt on it to the end
of the last, and was interrupted if an attempt on it was. What has its name afterwards is another.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from gpu_core.decisions.accounting import Attempt, EndReason
from gpu_core.decisions.capacity_life import (
    SPOT_PRIOR,
    CapacityLife,
    ObservedLife,
    learned_life,
)
from gpu_core.decisions.planned_names import planned_kind

SPOT = "spot"


@dataclass(slots=True)
class _Machine:
    gpu_type: str
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
    """Which lives of spot machines do these attempts show, by GPU type?

    Of a gang that was interrupted the first node counts: nobody says which of them failed it.

    Args:
        attempts: Of any runs, in any order; those on other capacity are left out.
        now: Until when an attempt that is open has lived.
    """
    on_spot = [
        attempt
        for attempt in attempts
        if attempt.capacity_type == SPOT
        and attempt.gpu_type is not None
        and planned_kind(attempt.node) is None
    ]
    machines: list[_Machine] = []
    current: dict[str, _Machine] = {}
    for attempt in sorted(on_spot, key=lambda a: (a.admitted_at, a.attempt_id)):
        machine = current.get(attempt.node)
        if machine is None or _is_another(machine, attempt):
            machine = _Machine(str(attempt.gpu_type), attempt.admitted_at, attempt.admitted_at)
            current[attempt.node] = machine
            machines.append(machine)
        machine.until = max(machine.until, attempt.released_at or now)
        machine.was_interrupted |= attempt.end_reason is EndReason.INTERRUPTED
    found: dict[str, list[ObservedLife]] = defaultdict(list)
    for machine in machines:
        found[machine.gpu_type].append(machine.life)
    return {gpu_type: tuple(lives) for gpu_type, lives in found.items()}


def _is_another(machine: _Machine, attempt: Attempt) -> bool:
    if machine.gpu_type != attempt.gpu_type:
        return True
    return machine.was_interrupted and attempt.admitted_at >= machine.until


def learned_spot_lives(attempts: Iterable[Attempt], now: datetime) -> Mapping[str, CapacityLife]:
    """How long does spot of each of these attempts' GPU types live? Others live as the prior says.

    Args:
        attempts: As for `spot_lives`.
        now: Aware.
    """
    return {
        gpu_type: learned_life(lives, SPOT_PRIOR)
        for gpu_type, lives in spot_lives(attempts, now).items()
    }
