"""The arguments of `prefect-gpu spot-replay`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gpu_core.cli.shared.secret_options import secret, secret_file, secret_option
from gpu_core.cli.spot.options import SpotReplayOptions

_DEFAULTS = SpotReplayOptions()


def spot_replay(
    *files: Annotated[
        Path,
        Parameter(
            help="Path to a JSON file containing the `metadata.gap_seconds` and `data` keys."
        ),
    ],
    ledger: Annotated[
        str | None,
        secret("ledger", "The file path or URL of a ledger to use instead of trace files"),
    ] = None,
    ledger_file: Annotated[str | None, secret_file("ledger")] = None,
    options: SpotReplayOptions = _DEFAULTS,
) -> int:
    """Simulate a job with a deadline using recorded spot availability.

    Starts the job at random times and compares the cost of each strategy with the lowest possible
    cost. Decisions are made every minute using the same rules, back-offs and limits as the worker.
    If a ledger is provided without --task-hours, the actual cost of completed spot runs is compared
    with their lowest possible cost.
    """
    from gpu_core.cli.spot.replay import run_spot_replay

    return run_spot_replay(files, secret_option("ledger", ledger, ledger_file), options)
