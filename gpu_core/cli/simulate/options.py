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
            help="The nodes of the virtual cluster, for example 80x8 (80 nodes with 8 GPUs "
            "each), 16x8+64x8:spot (including spot nodes) or count:640 (640 GPUs without "
            "node boundaries). For the openb format, the path to a node list."
        ),
    ]
    workload: Annotated[
        str,
        Parameter(
            help="Path to the workload file. For the ledger format, the file path or URL of the "
            "ledger. For the kueue format, the name of a generator (baseline or large)."
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
            help="Path to a policy file, or one of default, fifo, greedy, auto, easy, "
            "conservative, sjf, sjf-easy, fair, priority, srtf, srsf, las, mlfq and resumable; may "
            "be repeated. For the ledger format, the default policy is always included, and "
            "resumable if deployments have shown that their runs resume.",
        ),
    ]
    order: Annotated[
        Path | None,
        Parameter(
            help="Path to a file specifying the submission order of the pods. If provided, pods "
            "are never terminated, and the output shows the percentage of GPUs allocated by the "
            "placement strategy of each policy. In this case, --policy also accepts "
            "fragmentation-aware. Only applies to the openb format."
        ),
    ] = None
    events: Annotated[
        Path | None,
        Parameter(
            help="Path to a JSON Lines file specifying node failures, interruptions and recoveries."
        ),
    ] = None
    checkpoint_interval_s: Annotated[
        int | None,
        duration(
            "checkpoint-interval",
            "The default checkpoint interval for jobs that do not specify one. If not set, no "
            "work is lost on interruption.",
        ),
    ] = None
    checkpoint_stall_s: Annotated[
        int,
        duration(
            "checkpoint-cost",
            "The time required to save a checkpoint. Defaults to 0s if not specified.",
        ),
    ] = 0
    run_times: Annotated[
        Literal["none", "true", "noisy", "stated", "learned"],
        Parameter(help="The run times made available to the scheduler."),
    ] = "none"
    seed: Annotated[int, whole_number("The random seed to use when generating run times.")] = 1
    restart_s: Annotated[
        int,
        duration(
            "restart-cost",
            "The time required to restart a job. Defaults to 0s. For the ledger format, the "
            "measured time is used if runs of the deployment have resumed.",
        ),
    ] = 0
    tick_s: Annotated[
        int | None,
        duration("tick", "The maximum time between scheduling cycles while jobs are pending."),
    ] = None
    horizon_s: Annotated[
        int | None,
        duration(
            "horizon",
            "The time window over which GPU utilization is measured. Defaults to the entire "
            "simulation.",
        ),
    ] = None
    entitlements: Annotated[
        Path | None,
        Parameter(
            help="Path to a CSV file (vc,node num) specifying the weight of each team when "
            "calculating the share error."
        ),
    ] = None
    as_json: AsJson = False
