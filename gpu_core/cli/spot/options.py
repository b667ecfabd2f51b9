"""The options of `prefect-gpu spot-replay`."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from gpu_core.cli.shared.options import AsJson, repeated, whole_number


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class SpotReplayOptions:
    """Options for the replay."""

    task_hours: Annotated[float | None, Parameter(help="The total duration of the work.")] = None
    deadline_hours: Annotated[
        float | None, Parameter(help="The deadline of the job, relative to its start.")
    ] = None
    changeover_hours: Annotated[
        float,
        Parameter(
            help="The time lost by each start on other capacity. Until three starts are "
            "measured, the worker uses the policy's value."
        ),
    ] = 0.2
    price_ratio: Annotated[
        float | None,
        Parameter(
            help="The ratio of the on-demand price to the spot price. Ignored for a ledger that "
            "has prices."
        ),
    ] = None
    starts: Annotated[int, whole_number("The number of times to replay each file.")] = 100
    seed: Annotated[int, whole_number("Random seed to use for start times.")] = 1
    ticks: Annotated[
        int | None, whole_number("The maximum number of ticks to read from each file.")
    ] = None
    nodes: Annotated[
        int, whole_number("The minimum number of nodes required to treat spot as available.")
    ] = 1
    policy: Annotated[
        tuple[str, ...],
        repeated("patience, uniform-progress, plain-uniform-progress, greedy. Defaults to all"),
    ] = ()
    as_json: AsJson = False
