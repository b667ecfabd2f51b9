"""The creations of attempts that are under way, or over."""

import anyio

from gpu_core.adapters.kubernetes.reflector import SILENCE_S
from gpu_core.decisions.model.attempts import Attempt

# The watch sees a new Job within milliseconds; until then nothing proves that it is alive. A watch
# whose connection is cut silently sees it later: no Job is ended for that.
_UNSEEN_S = SILENCE_S + 5.0


class Creations:
    """Which attempts were asked for just now, and which can be created no more?

    Requests may be heard long after this worker has given them up: that of a worker which lost its
    lease, and one that got no answer.
    """

    def __init__(self) -> None:
        self._asked_at_s: dict[str, float] = {}
        self._answered: set[str] = set()

    def note_request(self, attempt_id: str) -> None:
        """The cluster is asked to create it now, or did not answer: it may show from here on."""
        self._asked_at_s[attempt_id] = anyio.current_time()

    def note_refusal(self, attempt_id: str) -> None:
        """The cluster has refused to create it."""
        self._asked_at_s.pop(attempt_id, None)
        self._answered.add(attempt_id)

    def note_impossible(self, attempt_id: str) -> None:
        """Its names are taken: no request can create it any more."""
        self._answered.add(attempt_id)

    def note_seen(self, attempt_id: str) -> None:
        """A watch has reported an object of it."""
        self._asked_at_s.pop(attempt_id, None)

    def is_just_asked_for(self, attempt_id: str) -> bool:
        """Would what was created for it perhaps not be seen yet?"""
        asked_at_s = self._asked_at_s.get(attempt_id)
        return asked_at_s is not None and anyio.current_time() - asked_at_s < _UNSEEN_S

    def is_over(self, attempt: Attempt) -> bool:
        """Was its creation answered, or its object seen?"""
        return attempt.started_at is not None or attempt.attempt_id in self._answered

    def forget(self, attempt_id: str) -> None:
        """The attempt is settled."""
        self._asked_at_s.pop(attempt_id, None)
        self._answered.discard(attempt_id)


def may_be_partial(attempt: Attempt) -> bool:
    """Is it a gang whose creation was not noted? Some of its objects may be missing.

    Who creates it has that under way itself; what a killed worker left is made anew. An operator's
    object is there as a whole, or not at all: it is looked for first.
    """
    return attempt.started_at is None and len(attempt.held) > 1
