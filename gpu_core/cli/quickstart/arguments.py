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
    """Run a demonstration of queueing, preemption, checkpointing and cost reporting.

    Starts a Prefect server, an MLflow server and a GPU worker with a separate directory for their
    state, submits training runs to a GPU work pool, and verifies that a preempted run resumes with
    identical results. All servers are stopped after completion unless --keep is set.
    """
    from gpu_core.cli.quickstart.command import quickstart as run_quickstart

    exit_code: int = run_quickstart(folder, keep=keep)
    return exit_code
