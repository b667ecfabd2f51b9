"""The options of `prefect-gpu spot-replay`."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from gpu_core.cli.shared.options import AsJson, repeated, whole_number


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class SpotReplayOptions:
    """Options for the replay."""

    task_hours: Annotated[float | None, Parameter(help="The job's work.")] = None
    deadline_hours: Annotated[
        float | None, Parameter(help="The job's deadline, counted from its start.")
    ] = None
    changeover_hours: Annotated[
        float,
        Parameter(
            help="The time that each start on other capacity loses. As in the worker, the policy "
            "states it until three starts are measured."
        ),
    ] = 0.2
    price_ratio: Annotated[
        float | None,
        Parameter(help="On-demand price by spot price; for a ledger's runs only if it has none."),
    ] = None
    starts: Annotated[int, whole_number("Replays of each file.")] = 100
    seed: Annotated[int, whole_number("The seed of their starts.")] = 1
    ticks: Annotated[int | None, whole_number("Use only this many ticks of each file.")] = None
    nodes: Annotated[int, whole_number("Spot counts as available from this many nodes on.")] = 1
    policy: Annotated[
        tuple[str, ...],
        repeated("patience, uniform-progress, plain-uniform-progress, greedy. Default: all"),
    ] = ()
    as_json: AsJson = False
