"""The options of `prefect-gpu simulate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from gpu_core.cli.shared.options import AsJson, duration, whole_number


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions:
    """Options for the replay."""

    nodes: Annotated[
        str,
        Parameter(
            help="80x8: 80 nodes of 8 GPUs; 16x8+64x8:spot: some of them spot; count:640: GPUs "
            "that may spread; or OpenB's node list."
        ),
    ]
    workload: Annotated[
        str,
        Parameter(
            help="The file of jobs; ledger: its file or address; kueue: a generator, baseline or "
            "large."
        ),
    ]
    format: Annotated[
        Literal["philly", "muri", "openb", "jsonl", "kueue", "ledger"],
        Parameter(help="The format of the workload."),
    ]
    policies: Annotated[
        tuple[str, ...],
        Parameter(
            name="--policy",
            help="A policy file, or default, fifo, greedy, auto, easy, conservative, sjf, "
            "sjf-easy, fair, priority, srtf, srsf, las, mlfq; may be repeated. "
            "ledger: default is added.",
        ),
    ]
    order: Annotated[
        Path | None,
        Parameter(
            help="openb: submit the pods in this file's order, let all stay, and print how much of "
            "the GPUs each policy's placement strategy allocates; --policy fragmentation-aware too."
        ),
    ] = None
    events: Annotated[
        Path | None,
        Parameter(
            help="Path to a JSON lines file with failures, interruptions and recoveries of nodes."
        ),
    ] = None
    checkpoint_interval_s: Annotated[
        int | None,
        duration(
            "checkpoint-interval",
            "The work between two checkpoints of jobs without their own value. By default no "
            "work is lost.",
        ),
    ] = None
    checkpoint_stall_s: Annotated[
        int, duration("checkpoint-cost", "The time required to save a checkpoint. Defaults to 0s.")
    ] = 0
    run_times: Annotated[
        Literal["none", "true", "noisy", "stated", "learned"],
        Parameter(help="The source of run times for the scheduler."),
    ] = "none"
    seed: Annotated[int, whole_number("Random seed to use for run times.")] = 1
    restart_s: Annotated[
        int,
        duration("restart-cost", "The time required to restart a job. Defaults to 0s."),
    ] = 0
    tick_s: Annotated[
        int | None,
        duration("tick", "The maximum time between scheduling cycles while jobs are pending."),
    ] = None
    horizon_s: Annotated[
        int | None,
        duration(
            "horizon",
            "The time window for measuring utilisation. Defaults to the whole simulation.",
        ),
    ] = None
    entitlements: Annotated[
        Path | None,
        Parameter(help="Path to a CSV file (vc,node num) with the weights for the share error."),
    ] = None
    as_json: AsJson = False
