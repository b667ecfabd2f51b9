"""The nodes and GPUs that each attempt really holds. Corrects what was planned."""

from collections.abc import Callable, Sequence

import anyio

from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.policy.policy import Policy
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.attempts.run_faults import RunFaults
from gpu_core.worker.attempts.run_log import describe_placement, run_log, start_note
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import Binding, Infrastructure
from gpu_core.worker.watch.policy import PolicySource

_DOING = "put on its nodes"


class Binder:
    """Binds attempts to the nodes where the infrastructure has placed them.

    Args:
        attempts: The open attempts.
        infrastructure: Where attempts run.
        policies: The policy in force.
        faults: Keeps the fault of one run from the others.
        note_moved: Called for each attempt that holds other GPUs than before.
    """

    def __init__(
        self,
        attempts: AttemptRegistry,
        infrastructure: Infrastructure,
        policies: PolicySource,
        faults: RunFaults,
        note_moved: Callable[[AttemptState], None],
    ) -> None:
        self._attempts = attempts
        self._infrastructure = infrastructure
        self._policies = policies
        self._faults = faults
        self._note_moved = note_moved
        self._turn = anyio.Lock()

    async def bind(self, policy: Policy) -> bool:
        """Is an attempt on other nodes than planned, or bound later? It holds what it has there.

        One after the other, each with what those before it were found to hold. Attempts that have
        ended and are not settled are among them: they may have been there with one that lives.
        """
        has_moved = False
        async with self._turn:
            unsettled = list(self._attempts)
            for running in unsettled:
                with self._faults.of_run(running, _DOING):
                    if await self._bind_one(running, unsettled, policy):
                        has_moved = True
        return has_moved

    async def bind_finally(self, running: AttemptState) -> None:
        """The final place, once all its processes have ended: the node may be gone or unknown."""
        policy = self._policies.current()
        async with self._turn:
            unsettled = list(self._attempts)
            with self._faults.of_run(running, _DOING):
                binding = self._infrastructure.final_binding(running, unsettled, policy)
                if binding is not None:
                    await self._move(running, binding, policy)

    async def _bind_one(
        self, running: AttemptState, unsettled: Sequence[AttemptState], policy: Policy
    ) -> bool:
        binding = self._infrastructure.binding(running, unsettled, policy)
        if binding is None:
            return False
        how = (
            "Its node joined the cluster" if running.awaited_kinds else "The cluster has placed it"
        )
        await self._move(running, binding, policy)
        where = describe_placement(running, "started")
        run_log(running, Reason.STARTING).info("%s: it %s", how, where)
        self._infrastructure.record_event(running, Reason.STARTING, start_note(running))
        return True

    async def _move(self, running: AttemptState, binding: Binding, policy: Policy) -> None:
        await self._attempts.bind(running, binding, policy)
        self._note_moved(running)
