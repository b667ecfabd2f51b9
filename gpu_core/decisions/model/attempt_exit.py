"""The observed end of what ran an attempt, before anything is concluded from it."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """The observed end of the process or Job of an attempt."""

    exit_code: int | None = None
    """Negative: the signal that ended it; None: unknown."""
    started_at: datetime | None = None
    """The moment of its start, where the start was not noted; None: unknown."""
    ended_at: datetime | None = None
    """The moment at which the process or pod ended whose end is the attempt's."""
    held_until: datetime | None = None
    """The moment at which the last part ended, such as another node of its gang; None: no later."""
    message: str | None = None
    """The facts beyond the exit code, in one sentence for the run's page."""
    is_flow: bool = True
    """Prefect ran inside and has reported how the flow ended; otherwise the exit code says it."""
    is_interruption: bool = False
    """The machine or the provider ended it, not the run itself."""
    is_gang_lost: bool = False
    """Another node of its gang had fallen silent before: what failed could not but fail."""
    is_own_failure: bool = False
    """Whether the machine or pod is known to have failed by itself, also without an exit code."""
    is_permanent: bool = False
    """Each further attempt would end in the same way, and the message says why."""
