"""Ends all of an attempt, and keeps a creation that is still on its way from making it anew."""

from collections.abc import Collection

import anyio

from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.kubernetes.cluster.cluster_cache import ClusterCache
from gpu_core.worker.kubernetes.jobs.attempt_objects import KILL_GRACE_S, AttemptObjects
from gpu_core.worker.kubernetes.jobs.attempt_request import request_of
from gpu_core.worker.kubernetes.jobs.creations import Creations
from gpu_core.worker.kubernetes.jobs.end_causes import EndCauses
from gpu_core.worker.kubernetes.jobs.tombstones import Tombstones
from gpu_core.worker.kubernetes.logs.attempt_output import AttemptOutput

_KILL_WAIT_S = 10.0


class AttemptKiller:
    """Deletes what still runs of attempts.

    Args:
        view: What the watches have seen.
        objects: Deletes.
        causes: Notes which pods ended before that.
        output: Reads what the pods wrote before they are deleted.
        creations: Which creations are over.
        tombstones: Takes the names of attempts whose creation is not over.
    """

    def __init__(
        self,
        view: ClusterCache,
        objects: AttemptObjects,
        causes: EndCauses,
        output: AttemptOutput,
        creations: Creations,
        tombstones: Tombstones,
    ) -> None:
        self._view = view
        self._objects = objects
        self._causes = causes
        self._output = output
        self._creations = creations
        self._tombstones = tombstones

    async def kill(
        self, running: AttemptState, fenced: Collection[str], policy: KubernetesPolicy
    ) -> bool:
        """Delete what still runs of the attempt, and wait until the nodes report its end.

        Args:
            running: The attempt.
            fenced: The nodes whose pods count as gone.
            policy: Says how long the names of an attempt stay taken.

        Returns:
            False: something of it lives, or that is unknown.
        """
        attempt_id = running.attempt.attempt_id
        self._output.follow(running)  # it may have ended before a cycle
        self._causes.note(attempt_id)
        if self._objects.live(attempt_id, fenced):
            await self._output.finish_reading(running)
            await self._output.keep_last_lines(running)
            await self._objects.delete(attempt_id, fenced, grace_s=KILL_GRACE_S)
        deadline_s = anyio.current_time() + _KILL_WAIT_S
        while self._objects.live(attempt_id, fenced):
            if anyio.current_time() >= deadline_s:
                return False
            await self._view.next_change(1.0)
        await self._objects.clear(attempt_id, fenced)
        if await self._objects.end_unseen(attempt_id, fenced):
            return False
        return await self._cannot_be_created(running, policy)

    async def _cannot_be_created(self, running: AttemptState, policy: KubernetesPolicy) -> bool:
        """Can no request that is still on its way create this attempt? False: one just did."""
        attempt = running.attempt
        if self._creations.is_over(attempt) or not running.is_claimed:
            return True
        if not await self._tombstones.put(running, request_of(running).framework, policy):
            return False
        self._creations.note_impossible(attempt.attempt_id)
        return True
