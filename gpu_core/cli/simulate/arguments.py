"""The arguments of `prefect-gpu simulate`."""

from gpu_core.cli.simulate.options import SimulateOptions


def simulate(*, options: SimulateOptions) -> int:
    """Replay a history of jobs under one or more policies.

    Replays it on a virtual cluster with the worker's own planner, and prints waits, use of the
    GPUs, fairness and work lost, one column for each policy.
    """
    from gpu_core.cli.simulate.command import run_simulate

    return run_simulate(options)
