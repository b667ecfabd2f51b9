"""The arguments of `prefect-gpu spot-replay`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gpu_core.cli.shared.secret_options import secret, secret_file, secret_option
from gpu_core.cli.spot.options import SpotReplayOptions

_DEFAULTS = SpotReplayOptions()


def spot_replay(
    *files: Annotated[
        Path, Parameter(help="Path to a JSON file with the keys metadata.gap_seconds and data.")
    ],
    ledger: Annotated[
        str | None,
        secret("ledger", "The ledger to replay spot attempts from, instead of files"),
    ] = None,
    ledger_file: Annotated[str | None, secret_file("ledger")] = None,
    options: SpotReplayOptions = _DEFAULTS,
) -> int:
    """Replay a job with a deadline on recorded spot availability.

    Starts at random moments, and prints what each strategy for spot and on-demand costs next to
    the best possible. The worker's own rules decide, every minute, with its back-offs and limits.
    With a ledger and no task: what the best possible would have cost its finished spot runs.
    """
    from gpu_core.cli.spot.replay import run_spot_replay

    return run_spot_replay(files, secret_option("ledger", ledger, ledger_file), options)
