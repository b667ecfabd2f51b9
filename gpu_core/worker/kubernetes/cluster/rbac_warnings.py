"""Rights that the worker lacks and can do without: logged once, not at every request."""

import logging

from gpu_core.adapters.kubernetes import KubernetesError
from gpu_core.decisions.kubernetes.status.api_errors import GRANTED_BY, missing_right
from gpu_core.decisions.model.errors import sentences

NO_OUTPUT = "pod output is not available in the logs of runs"
"""The consequence of a missing right to `pods/log`."""

_log = logging.getLogger("prefect.gpu.rights")


class MissingRights:
    """The requests that the cluster has refused to one worker."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def note(self, error: KubernetesError, lost: str) -> None:
        """Warn, the first time, if this error is for want of a right.

        Args:
            error: Of a request that nothing depends on.
            lost: What runs go without, as a clause.
        """
        right = missing_right(error.message)
        if right is None or right in self._logged:
            return
        self._logged.add(right)
        _log.warning("The worker is not permitted to %s: %s", right, sentences(lost, GRANTED_BY))
