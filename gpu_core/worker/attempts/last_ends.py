"""The reasons why the last attempts ended of runs that wait for their next one."""

from collections.abc import Mapping, Sequence

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.worker.operations.threads import in_thread


class LastEnds:
    """The message of each run's last end, for the page of a run that waits.

    Args:
        ledger: Knows those of an earlier worker.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.messages: dict[str, str] = {}
        """By flow run id."""

    def note(self, flow_run_id: str, message: str) -> None:
        """An attempt of this run has ended."""
        self.messages[flow_run_id] = message

    def forget(self, flow_run_id: str) -> None:
        """The run waits for nothing more."""
        self.messages.pop(flow_run_id, None)

    async def learn(self, flow_run_ids: Sequence[str]) -> None:
        """Read why the last attempts of these runs ended, also after a restart."""
        unknown = [run_id for run_id in flow_run_ids if run_id not in self.messages]
        if not unknown:
            return
        found: Mapping[str, tuple[Attempt, ...]] = await in_thread(
            self._ledger.attempts_of, unknown
        )
        for flow_run_id, attempts in found.items():
            taken = [a for a in attempts if a.has_run]
            if taken:
                self.messages[flow_run_id] = taken[-1].end_message or ""
