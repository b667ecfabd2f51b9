"""The arguments of `prefect-gpu simulate`."""

from gpu_core.cli.simulate.options import SimulateOptions


def simulate(*, options: SimulateOptions) -> int:
    """Simulate a workload under one or more scheduling policies.

    Jobs are scheduled on a virtual cluster by the same planner that is used by the worker. The
    output includes wait times, GPU utilization, fairness and lost work for each policy.
    """
    from gpu_core.cli.simulate.command import run_simulate

    return run_simulate(options)
