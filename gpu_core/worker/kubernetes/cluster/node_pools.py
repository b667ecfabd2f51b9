"""Karpenter's NodePools, read once a minute: they seldom change."""

import logging

import anyio

from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError
from gpu_core.adapters.kubernetes.api import Json
from gpu_core.decisions.model.errors import sentences
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy, Provisioner
from gpu_core.worker.operations.throttle import Throttle

_log = logging.getLogger("prefect.gpu.node_pools")

_PATH = "/apis/karpenter.sh/v1/nodepools"
_POLL_S = 60.0


class NodePools:
    """The NodePools of a cluster, where it has Karpenter and the policy says so."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._found: tuple[Json, ...] = ()
        self._polls = Throttle(_POLL_S)

    async def refresh(self, policy: KubernetesPolicy) -> tuple[Json, ...]:
        """The NodePools that are there, as of the last minute; none where they cannot be read."""
        if policy.provisioner is not Provisioner.KARPENTER:
            return ()
        if self._polls.allows(anyio.current_time()):
            self._found = await self._read()
        return self._found

    async def _read(self) -> tuple[Json, ...]:
        try:
            answer = await self._api.get(_PATH)
        except KubernetesError as error:
            if error.is_retryable:
                return self._found
            if not error.is_missing:
                why = sentences(str(error), "NodePools are ignored")
                _log.warning("Failed to list NodePools: %s", why)
            return ()
        return tuple(answer.get("items") or ())
