"""The worker's state folder: what runs print and write lies there, for the worker's user alone."""

import logging
from pathlib import Path

from gpu_core.adapters.files.private_folder import make_private_folder, tighten_folder

_log = logging.getLogger("prefect.gpu.state")

RUNS = "runs"

# What workers of this version and of earlier ones put there.
_OURS = (RUNS, "checkpoints", "ledger.db*", "*.lock", "*.forecasts.json*", "*.outages.json*")


def open_state_folder(path: Path) -> None:
    """Have the state folder and the folder of runs in it, closed to other users.

    Earlier versions left both open to all. A state folder that also holds files of another
    user stays as it is: only the runs in it are closed. The worker continues if the folder cannot
    be made: each write to it then fails with its own error.
    """
    try:
        make_private_folder(path / RUNS)
    except OSError as error:
        _log.warning("Failed to create state directory: %s", error)
        return
    tighten_folder(path / RUNS)
    tighten_folder(path, _OURS)
