"""The policy in force: read again when its file changes, kept when the new one is malformed."""

import logging
from pathlib import Path

from gpu_core.adapters.policy_file import load_policy
from gpu_core.decisions.errors import GpuSchedulingError
from gpu_core.decisions.policy import Policy

_log = logging.getLogger(__name__)


class PolicySource:
    """The policy of one worker.

    Args:
        path: The policy file; None: the policy's defaults.

    Raises:
        GpuSchedulingError: The file is malformed at the start. Later a malformed file is logged and
            the policy before it stays in force.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stamp = self._file_stamp()
        self._policy = load_policy(path) if path is not None else Policy(version=1)

    def current(self) -> Policy:
        """The policy to plan with now."""
        stamp = self._file_stamp()
        if self._path is None or stamp == self._stamp:
            return self._policy
        self._stamp = stamp
        try:
            self._policy = load_policy(self._path)
            _log.info("Policy %s was read again", self._path)
        except (GpuSchedulingError, OSError) as error:
            _log.error("Policy %s stays as it was: %s", self._path, error)
        return self._policy

    def _file_stamp(self) -> tuple[int, int] | None:
        if self._path is None or not self._path.exists():
            return None
        stat = self._path.stat()
        return stat.st_mtime_ns, stat.st_size
