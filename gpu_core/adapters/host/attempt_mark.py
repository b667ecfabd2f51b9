"""The mark that all processes of an attempt carry in their environment."""

from collections.abc import Mapping

import psutil

from gpu_core.decisions.requests.runs.run_context import ATTEMPT_ID_VARIABLE


def attempt_id_of(process: psutil.Process) -> str | None:
    """The attempt that a process belongs to, by its mark; None: it has none, or is gone."""
    return (environment_of(process) or {}).get(ATTEMPT_ID_VARIABLE)


def environment_of(process: psutil.Process) -> Mapping[str, str] | None:
    """The environment of a process; None: it ended, or belongs to another user."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return process.environ()
    except (psutil.Error, OSError):
        return None
