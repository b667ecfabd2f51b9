"""The options of `prefect-gpu spot-replay`."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from gpu_core.cli.shared.options import AsJson, repeated, whole_number


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class SpotReplayOptions:
    """Options for the replay."""

    task_hours: Annotated[
        float | None, Parameter(help="The total duration of the job, excluding interruptions.")
    ] = None
    deadline_hours: Annotated[
        float | None, Parameter(help="The deadline of the job, relative to its start time.")
    ] = None
    changeover_hours: Annotated[
        float,
        Parameter(
            help="The time lost whenever the job is moved to a different capacity type. The "
            "worker uses the value from the policy until it has measured three starts."
        ),
    ] = 0.2
    price_ratio: Annotated[
        float | None,
        Parameter(
            help="The ratio of the on-demand price to the spot price. Ignored if the ledger "
            "contains prices."
        ),
    ] = None
    starts: Annotated[int, whole_number("The number of simulations to run for each file.")] = 100
    seed: Annotated[int, whole_number("The random seed to use when generating start times.")] = 1
    ticks: Annotated[
        int | None, whole_number("The maximum number of ticks to read from each file.")
    ] = None
    nodes: Annotated[
        int, whole_number("The minimum number of nodes required to treat spot as available.")
    ] = 1
    policy: Annotated[
        tuple[str, ...],
        repeated(
            "The strategy to simulate: patience, uniform-progress, plain-uniform-progress "
            "or greedy. If not provided, all strategies are simulated"
        ),
    ] = ()
    as_json: AsJson = False
