"""The options of `prefect-gpu simulate`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from gpu_core.cli.shared.options import AsJson, whole_number


def simulate(
    *,
    nodes: Annotated[
        str,
        Parameter(
            help="80x8: 80 nodes of 8 GPUs; 16x8+64x8:spot: some of them spot; count:640: GPUs "
            "that may spread; or OpenB's node list."
        ),
    ],
    workload: Annotated[
        str,
        Parameter(
            help="The file of jobs; ledger: its file or address; kueue: a generator, baseline or "
            "large."
        ),
    ],
    trace_format: Annotated[
        Literal["philly", "muri", "openb", "jsonl", "kueue", "ledger"],
        Parameter(name="--format", help="The workload's format."),
    ],
    policy: Annotated[
        tuple[str, ...],
        Parameter(
            help="A policy file, or fifo, greedy, easy, conservative, sjf, sjf-easy, fair, "
            "priority, srtf, srsf, las, mlfq; may be repeated."
        ),
    ],
    order: Annotated[
        Path | None,
        Parameter(
            help="openb: submit the pods in this file's order, let all stay, and print how much of "
            "the GPUs each policy's placement strategy allocates; --policy fragmentation-aware too."
        ),
    ] = None,
    events: Annotated[
        Path | None,
        Parameter(help="JSON lines: failures, interruptions and recoveries of nodes."),
    ] = None,
    checkpoint_interval: Annotated[
        str | None,
        Parameter(
            help="Work between two checkpoints of jobs that state none. Default: no work is lost."
        ),
    ] = None,
    checkpoint_cost: Annotated[str, Parameter(help="What each of these takes.")] = "0s",
    run_times: Annotated[
        Literal["none", "true", "noisy", "stated", "learned"],
        Parameter(help="What the scheduler knows of run times."),
    ] = "none",
    seed: Annotated[int, whole_number("The seed of noisy run times.")] = 1,
    restart_cost: Annotated[str, Parameter(help="What each attempt after the first loses.")] = "0s",
    tick: Annotated[str | None, Parameter(help="Plan at least this often while jobs wait.")] = None,
    horizon: Annotated[
        str | None, Parameter(help="The time over which utilisation counts. Default: to the end.")
    ] = None,
    entitlements: Annotated[
        Path | None, Parameter(help="CSV with vc,node num: the weights for the share error.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Replay a history of jobs under one or more policies.

    Replays it on a virtual cluster with the worker's own planner, and prints waits, use of the
    GPUs, fairness and work lost, one column for each policy.
    """
    from gpu_core.cli.simulate.command import SimulateOptions, run_simulate
    from gpu_core.decisions.model.units import parse_duration_s

    def duration_s(text: str | None, field: str) -> int | None:
        return None if text is None else parse_duration_s(text, field)

    return run_simulate(
        SimulateOptions(
            nodes=nodes,
            workload=workload,
            format=trace_format,
            order=order,
            events=events,
            checkpoint_interval_s=duration_s(checkpoint_interval, "checkpoint-interval"),
            checkpoint_stall_s=parse_duration_s(checkpoint_cost, "checkpoint-cost"),
            policies=policy,
            run_times=run_times,
            seed=seed,
            restart_s=parse_duration_s(restart_cost, "restart-cost"),
            tick_s=duration_s(tick, "tick"),
            horizon_s=duration_s(horizon, "horizon"),
            entitlements=entitlements,
            as_json=as_json,
        )
    )
