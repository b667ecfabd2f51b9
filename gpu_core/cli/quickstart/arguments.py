"""The options of `prefect-gpu quickstart`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gpu_core.cli.shared.options import flag


def quickstart(
    *,
    folder: Annotated[Path, Parameter(help="The directory to use for state and logs.")] = Path(
        ".quickstart"
    ),
    keep: Annotated[
        bool, flag("Keep the servers running after completion. Can also be set with KEEP=1.")
    ] = False,
) -> int:
    """Run the whole cycle on this machine: queue, preempt, resume, cost.

    Starts a Prefect server, MLflow and a GPU worker in a folder of their own. Runs trainings in a
    GPU pool, and checks that a preempted one resumes exactly. Stops everything at the end.
    """
    from gpu_core.cli.quickstart.command import quickstart as run_quickstart

    exit_code: int = run_quickstart(folder, keep=keep)
    return exit_code
