"""Which faults happen, and when: drawn from a seed, so that a story can be repeated."""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpu_core.decisions.model.attempts import Attempt


class Kind(StrEnum):
    """What can be done to the system."""

    WORKER_KILLED = "worker killed"
    POD_EVICTED = "pod evicted"
    POD_DELETED = "pod deleted"
    JOB_DELETED = "Job deleted"
    KUBELET_STOPPED = "kubelet stopped"
    NODE_DRAINED = "node drained"
    NODE_PARTED = "node parted from the API server"
    NODE_SWITCHED_OFF = "node switched off"
    """No process learns of it until a person deletes the Node, or taints it as out of service."""
    API_SERVER_RESTARTED = "API server restarted"
    PREFECT_RESTARTED = "Prefect restarted"
    SPOT_TAKEN_BACK = "spot interruption"
    WATCHES_CUT = "watches cut"
    WATCHES_SILENT = "watches silent"


class Phase(StrEnum):
    """How far an attempt is: between which steps of the worker's DESIGN.md."""

    ADMITTED = "admitted"
    """Step 2 is done, 5 is not: in the ledger, and its Job may be there or not."""
    STARTED = "started"
    """Step 5 is done, and nothing runs yet."""
    RUNNING = "running"
    STOP_REQUESTED = "asked to stop"
    JUDGED = "judged"
    """Step 8 is done, 10 is not: Prefect may know of the end or not."""


# How long each lasts, at least and at most. The tests' clusters take a node for silent after 20 s
# (NODE_GRACE_S): an outage of a kubelet, or of its line, may be shorter than that or longer.
_LASTS_S: Mapping[StrEnum, tuple[float, float]] = {
    Kind.WORKER_KILLED: (0, 4),
    Kind.KUBELET_STOPPED: (3, 60),
    Kind.NODE_DRAINED: (2, 10),
    Kind.NODE_PARTED: (3, 60),
    Kind.NODE_SWITCHED_OFF: (3, 30),
    Kind.SPOT_TAKEN_BACK: (2, 10),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is done.

    Attributes:
        wait_s: How long after the fault before it has ended.
        lasts_s: How long until what was stopped is started again.
        draw: From 0 to 1: which of the pods or Jobs that there are then is hit.
        phase: How far an attempt is at the moment when the worker is killed; each in its turn.
    """

    kind: StrEnum
    wait_s: float
    lasts_s: float
    draw: float
    phase: Phase


@dataclass(frozen=True, slots=True)
class Deed:
    """What was done, and to whom."""

    kind: StrEnum
    has_struck: bool
    what: str
    took_s: float

    def __str__(self) -> str:
        return f"{self.kind} ({self.took_s:.0f} s): {self.what}"


def agenda(
    seed: int,
    count: int,
    kinds: Sequence[StrEnum] = tuple(Kind),
    lasts_s: Mapping[StrEnum, tuple[float, float]] = _LASTS_S,
) -> tuple[Fault, ...]:
    """Which faults happen, and when? Every kind as often as the others, or once less.

    Args:
        seed: The same gives the same.
        count: How many faults.
        kinds: Those that may happen.
        lasts_s: How long each lasts, at least and at most; 0 s without an entry.
    """
    draws = random.Random(seed)
    order: list[StrEnum] = []
    while len(order) < count:
        order += draws.sample(kinds, len(kinds))
    # Stories with neighboring seeds kill the worker in different phases, however short they are.
    kills = seed * (count // len(kinds))
    faults = []
    for kind in order[:count]:
        faults.append(
            Fault(
                kind=kind,
                wait_s=draws.uniform(0.5, 4),
                lasts_s=draws.uniform(*lasts_s.get(kind, (0, 0))),
                draw=draws.random(),
                phase=tuple(Phase)[kills % len(Phase)],
            )
        )
        kills += kind is Kind.WORKER_KILLED
    return tuple(faults)


def phases_of(attempts: Iterable[Attempt], begun: Collection[tuple[str, int]]) -> set[Phase]:
    """How far are these attempts?

    Args:
        attempts: The ledger's; closed ones are passed over.
        started: Flow run and number of those that noted their begin.
    """
    return {_phase(attempt, begun) for attempt in attempts if attempt.released_at is None}


def _phase(attempt: Attempt, begun: Collection[tuple[str, int]]) -> Phase:
    if attempt.settlement is not None:
        return Phase.JUDGED
    if attempt.drain_requested_at is not None:
        return Phase.STOP_REQUESTED
    if attempt.started_at is None:
        return Phase.ADMITTED
    if (attempt.flow_run_id, attempt.number) in begun:
        return Phase.RUNNING
    return Phase.STARTED
