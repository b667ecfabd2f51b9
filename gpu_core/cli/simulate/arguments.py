"""The arguments of `prefect-gpu simulate`."""

from gpu_core.cli.simulate.options import SimulateOptions


def simulate(*, options: SimulateOptions) -> int:
    """Replay a history of jobs under one or more policies.

    Replays the jobs on a virtual cluster with the worker's own planner. Prints waits, GPU use,
    fairness and lost work, with one column for each policy.
    """
    from gpu_core.cli.simulate.command import run_simulate

    return run_simulate(options)
