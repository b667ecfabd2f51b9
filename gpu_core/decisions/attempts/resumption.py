"""The deployments whose runs have shown that they resume from complete checkpoints."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from gpu_core.decisions.model.attempts import Attempt

SHOWN_BY = 3
"""As many continued runs show it: one may be luck, and the worker asks for three measured starts
before it relies on them, too."""
_STARTS_KEPT = 20
_DEPLOYMENTS_KEPT = 5_000


class ResumptionHistory:
    """The latest continued attempts of each deployment, and whether they resumed.

    The deployments that were seen longest ago are forgotten first.
    """

    def __init__(self) -> None:
        self._starts: OrderedDict[str, OrderedDict[str, bool]] = OrderedDict()

    def observe(self, deployment: str | None, attempts: Sequence[Attempt]) -> None:
        """Learn from a run, as often as it is read.

        Args:
            deployment: Its id or name; None: nothing is learned.
            attempts: All of the run, by number.
        """
        found = resumptions(attempts) if deployment is not None else {}
        if deployment is None or not found:
            return
        known = self._starts.setdefault(deployment, OrderedDict())
        self._starts.move_to_end(deployment)
        known.update(found)
        while len(known) > _STARTS_KEPT:
            known.popitem(last=False)
        while len(self._starts) > _DEPLOYMENTS_KEPT:
            self._starts.popitem(last=False)

    def has_resumed(self, deployment: str | None) -> bool:
        """Have runs of this deployment shown that they resume, and has none started over?"""
        if deployment is None or deployment not in self._starts:
            return False
        starts = self._starts[deployment].values()
        return len(starts) >= SHOWN_BY and all(starts)


def resumptions(attempts: Sequence[Attempt]) -> Mapping[str, bool]:
    """Whether each attempt that continued earlier work resumed it, by attempt id.

    It resumed if it began with the newest checkpoint of the attempts before it, and then did a new
    step: the checkpoint was complete. It started over if it did a step without, or after an older
    one. Left out is an attempt that did no step, and one before which no work was done.

    Args:
        attempts: All of one run, by number.
    """
    found: dict[str, bool] = {}
    newest: str | None = None
    was_work_done = False
    for attempt in attempts:
        if attempt.first_step_at is not None and was_work_done:
            is_newest = newest is not None and attempt.restored_from == newest
            found[attempt.attempt_id] = is_newest
        newest = attempt.checkpoint or newest
        was_work_done = was_work_done or attempt.first_step_at is not None or newest is not None
    return found
