"""`prefect-gpu simulate --order`: the part of a cluster that is allocated when no job ends."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from gpu_core.cli.shared.tables import print_table
from gpu_core.cli.simulate.table import comparison
from gpu_core.decisions.policy.placement import Strategy
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.simulation.cluster.offered_load import OfferedLoad, by_strategy, offer
from gpu_core.decisions.simulation.cluster.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """One policy's column."""

    policy: str
    offering: OfferedLoad
    cpu_s: float


def run_offering(
    trace: Trace, policies: Sequence[str], parse: Callable[[str], Policy], *, as_json: bool
) -> int:
    """Offer the jobs in their order, and print a table or JSON. Returns the exit code.

    Args:
        trace: Only the jobs' shapes count, not their times.
        policies: The policies whose placement strategies are compared, and the strategy
            `fragmentation-aware`.
        parse: Which policy has this name or file?

    Raises:
        InvalidInput: A policy cannot be used.
    """
    columns = [_offered(trace, text, parse) for text in policies]
    if as_json:
        print(json.dumps([asdict(column) for column in columns], indent=2))
    else:
        offered = [(column.policy, column.offering, column.cpu_s) for column in columns]
        print_table(comparison("Offered in order, none ends", offered, _ROWS))
    return 0


def _offered(trace: Trace, text: str, parse: Callable[[str], Policy]) -> Offered:
    is_strategy = text == Strategy.FRAGMENTATION_AWARE
    strategy = Strategy.FRAGMENTATION_AWARE if is_strategy else parse(text).placement.strategy
    began_s = time.process_time()
    place = by_strategy(trace.nodes, strategy)
    offering = offer((job.shape for job in trace.jobs), trace.gpus, place)
    return Offered(policy=text, offering=offering, cpu_s=time.process_time() - began_s)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}%"


_ROWS: tuple[tuple[str, Callable[[OfferedLoad], str]], ...] = (
    ("Offered", lambda o: f"{o.offered:,}"),
    ("Fitted nowhere", lambda o: f"{o.failed:,}"),
    ("GPUs requested", lambda o: _percent(o.arrived_percent)),
    ("Allocated at 100% demand", lambda o: _percent(o.allocated_at_100_percent)),
    ("Allocated at the end", lambda o: _percent(o.allocated_percent)),
)
