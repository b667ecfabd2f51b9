"""The policy in force: read again when its file changes, kept when the new one is malformed."""

import logging
from pathlib import Path

from gpu_core.adapters.files.policy_file import policy_of, read_policy_text
from gpu_core.decisions.model.errors import GpuSchedulingError
from gpu_core.decisions.policy.policy import Policy

_log = logging.getLogger("prefect.gpu.policy")


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
        self._policy, self.text = _read(path)
        """`text` is that of the policy in force; None: there is no file."""
        self._problem: str | None = None

    @property
    def problem(self) -> str | None:
        """The reason why the file is not the policy in force; None: it is, or there is no file."""
        return self._problem

    @property
    def notice(self) -> str | None:
        """The notice for people whose runs wait under this policy; None: there is none."""
        if self._path is None:
            return (
                "No policy file is configured: GPUs have no prices and virtual GPUs are "
                "unavailable. To use a policy, set PREFECT_INTEGRATIONS_GPU_POLICY_PATH and "
                "restart the worker"
            )
        if self._problem is None:
            return None
        return f"Using the last valid policy because its file is invalid: {self._problem}"

    def current(self) -> Policy:
        """The policy to plan with now."""
        stamp = self._file_stamp()
        if self._path is None or stamp == self._stamp:
            return self._policy
        self._stamp = stamp
        try:
            policy, text = _read(self._path)
        except (GpuSchedulingError, OSError) as error:
            self._keep(str(error))
            return self._policy
        if self._problem is not None:
            _log.info("Policy file %s is valid again and was reloaded", self._path)
        elif policy != self._policy:
            _log.info("Reloaded policy file %s", self._path)
        self._policy, self.text, self._problem = policy, text, None
        return policy

    def _keep(self, problem: str) -> None:
        if problem == self._problem:
            return  # it was saved again with the same mistakes
        self._problem = problem
        _log.error("Failed to load policy file. Using the last valid version.\n%s", problem)

    def _file_stamp(self) -> tuple[int, int, int, int] | None:
        """A value that changes whenever the file, its permissions or its folder's link change."""
        if self._path is None:
            return None
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino


def _read(path: Path | None) -> tuple[Policy, str | None]:
    """The policy and its text; without a file the default one, and None."""
    if path is None:
        return Policy(version=1), None
    text = read_policy_text(path)
    return policy_of(text, str(path)), text
