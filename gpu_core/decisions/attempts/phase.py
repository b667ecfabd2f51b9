"""The life of an attempt as phases, with one table of what may follow what."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.errors import GpuSchedulingError


class AttemptPhase(StrEnum):
    """The phase of an attempt, as known to the worker that is responsible for it."""

    RECOVERING = "recovering"
    """An earlier worker admitted it, and its run is still to be read: enough is known to keep its
    GPUs, not to settle it."""
    ADMITTED = "admitted"
    """It holds its GPUs. Prefect has not given its run to this worker: another one may have it."""
    LAUNCHING = "launching"
    """Prefect has given its run to this worker; what runs it is being created, or may exist."""
    STARTED = "started"
    """Its infrastructure exists; its flow or container has not started."""
    RUNNING = "running"
    """Its flow or container has started."""
    DRAINING = "draining"
    """It was asked to stop, and has until its deadline to save."""
    ENDING = "ending"
    """Its main process ended, or it can never start; what is left of it is being killed."""
    RELEASED = "released"
    """Nothing of it lives and its GPUs are free; its end is being judged and written down."""
    SETTLED = "settled"
    """Its end is written down, or it was withdrawn. It never changes again."""

    @property
    def holds_gpus(self) -> bool:
        """May no other attempt get its GPUs?"""
        return self not in (AttemptPhase.RELEASED, AttemptPhase.SETTLED)

    @property
    def is_up(self) -> bool:
        """Does what runs it exist, without having been asked to stop?"""
        return self in (AttemptPhase.STARTED, AttemptPhase.RUNNING)

    @property
    def has_ended(self) -> bool:
        """Is it over, apart from what has to be cleaned up and written down?"""
        return self in (AttemptPhase.ENDING, AttemptPhase.RELEASED, AttemptPhase.SETTLED)

    @property
    def is_stopping(self) -> bool:
        """Was it asked to stop, or has it ended?"""
        return self is AttemptPhase.DRAINING or self.has_ended


TRANSITIONS: Mapping[AttemptPhase, frozenset[AttemptPhase]] = {
    phase: frozenset(map(AttemptPhase, followers.split()))
    for phase, followers in {
        AttemptPhase.RECOVERING: "launching started draining released",
        # Settled at once: the ledger refused it, as another worker has started the run.
        AttemptPhase.ADMITTED: "launching started ending settled",
        AttemptPhase.LAUNCHING: "started draining ending",
        AttemptPhase.STARTED: "running draining ending",
        AttemptPhase.RUNNING: "draining ending",
        AttemptPhase.DRAINING: "ending",
        AttemptPhase.ENDING: "released",
        AttemptPhase.RELEASED: "settled",
        AttemptPhase.SETTLED: "",
    }.items()
}
"""The phases that may follow each phase."""


class IllegalTransition(GpuSchedulingError):
    """A phase was to follow one that it never follows: a mistake of the worker.

    Args:
        attempt_id: Which attempt.
        from_: The phase that it is in, and stays in.
        to: The phase that was asked for.
        history: The phases that it was in, in order, the current one last.
    """

    def __init__(
        self,
        attempt_id: str,
        from_: AttemptPhase,
        to: AttemptPhase,
        history: tuple[AttemptPhase, ...],
    ) -> None:
        super().__init__(attempt_id, from_, to, history)
        self.attempt_id, self.from_, self.to, self.history = attempt_id, from_, to, history

    def __str__(self) -> str:
        allowed = ", ".join(sorted(TRANSITIONS[self.from_])) or "nothing"
        return (
            f"attempt {self.attempt_id} cannot go from {self.from_} to {self.to}. "
            f"Allowed: {allowed}. It was {' → '.join(self.history)}."
        )


class PhaseStart(NamedTuple):
    """The beginning of a phase."""

    phase: AttemptPhase
    at: datetime


@dataclass(frozen=True, slots=True)
class AttemptLife:
    """The phases of one attempt so far. `moved_to` is the only way into the next one."""

    attempt_id: str
    steps: tuple[PhaseStart, ...]
    """At least one, in order; the last one is current."""

    @property
    def phase(self) -> AttemptPhase:
        """The current phase."""
        return self.steps[-1].phase

    @property
    def history(self) -> tuple[AttemptPhase, ...]:
        """All phases, the current one last."""
        return tuple(step.phase for step in self.steps)

    def entered_at(self, phase: AttemptPhase) -> datetime | None:
        """The moment at which this phase began; None: the attempt was never in it."""
        return next((step.at for step in self.steps if step.phase is phase), None)

    def moved_to(self, phase: AttemptPhase, at: datetime) -> "AttemptLife":
        """The same life in its next phase.

        Args:
            phase: The next phase.
            at: When it started, aware.

        Raises:
            IllegalTransition: It does not follow the current phase.
        """
        if phase not in TRANSITIONS[self.phase]:
            raise IllegalTransition(self.attempt_id, self.phase, phase, self.history)
        return replace(self, steps=(*self.steps, PhaseStart(phase, at)))


def recorded_phase(attempt: Attempt) -> AttemptPhase:
    """The phase of this attempt, as far as its row in the ledger says.

    That of a version before has the same columns. Whether its flow has started is Prefect's to say,
    and one without a start may have been given to a worker that died before it could note it.
    """
    if attempt.released_at is not None:
        return AttemptPhase.SETTLED
    if attempt.gone_at is not None:
        return AttemptPhase.RELEASED
    if attempt.drain_requested_at is not None:
        return AttemptPhase.DRAINING
    return AttemptPhase.LAUNCHING if attempt.started_at is None else AttemptPhase.STARTED
