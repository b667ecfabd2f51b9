"""The cluster's version of Kubernetes, and whether manifests suit the policy's version."""

import logging

from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.decisions.policy.kubernetes_version import why_too_old

_log = logging.getLogger("prefect.gpu.kubernetes")


class ServerVersion:
    """The version of the cluster's API server, once it is read.

    Args:
        api: The cluster.
    """

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._version: str | None = None

    async def read(self, policy: KubernetesPolicy) -> None:
        """Ask the API server, and warn where it would drop fields of the policy's version."""
        try:
            version = str((await self._api.get("/version"))["gitVersion"])
            why = why_too_old(policy.version, version)
        except (KubernetesError, KeyError, InvalidInput) as error:
            _log.debug("Failed to read the Kubernetes server version: %s", error)
            return
        self._version = version
        if why is not None:
            _log.warning("%s", why)

    def applied_to(self, policy: KubernetesPolicy) -> KubernetesPolicy:
        """The policy with the cluster's own version where it is too old for the policy's."""
        version = self._version
        if version is None or why_too_old(policy.version, version) is None:
            return policy
        return policy.model_copy(update={"version": version})
