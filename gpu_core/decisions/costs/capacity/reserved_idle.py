"""The idle capacity that was reserved for a team, and is therefore the team's to pay."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from itertools import pairwise

from gpu_core.decisions.costs.capacity.idle import CapacityCost, with_parts
from gpu_core.decisions.costs.reports.cost_report import CostReport, CostRow, Keys
from gpu_core.decisions.costs.usage.scale import Scale
from gpu_core.decisions.costs.usage.usage import NO_USAGE, Usage, round_half_up, sum_usage
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Nodes that only the runs of one team could use for a time."""

    name: str
    """Where two reservations overlap, the first name counts."""
    team: str
    nodes: Collection[str]
    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedTime:
    """A part of a report's time in which the same nodes are reserved."""

    window: Window
    team_by_node: Mapping[str, str]


def reserved_times(
    reservations: Iterable[Reservation], window: Window, now: datetime
) -> tuple[ReservedTime, ...]:
    """The window up to now, cut where reservations begin and end. The parts cover it, each once."""
    end = min(window.end, max(window.start, now))
    ordered = sorted(reservations, key=lambda r: (r.name, r.window.start))
    cuts = {window.start, end}
    for reservation in ordered:
        cuts |= {reservation.window.start, reservation.window.end}
    moments = sorted(moment for moment in cuts if window.start <= moment <= end)
    times = []
    for start, until in pairwise(moments):
        teams: dict[str, str] = {}
        for reservation in ordered:
            if reservation.window.start <= start and until <= reservation.window.end:
                for node in reservation.nodes:
                    teams.setdefault(node, reservation.team)
        times.append(ReservedTime(window=Window(start, until), team_by_node=teams))
    return tuple(times)


def with_reserved_idle(
    report: CostReport, costs: Sequence[tuple[ReservedTime, CapacityCost]]
) -> CostReport:
    """The report of teams with the idle capacity of their reservations; the rest has its own line.

    A team that reserved and ran nothing gets a row.

    Args:
        report: By team only.
        costs: What all machines cost in each part of the report's time.

    Raises:
        InvalidInput: The report has other keys (field `idle`).
    """
    if report.keys != ("team",):
        raise InvalidInput(
            "idle",
            "is shared by reservation between teams only",
            got=f"by {', '.join(report.keys)}",
            remedy="please use --by team or a different rule",
        )
    idle_of: dict[Keys, list[Usage]] = {}
    rest: list[Usage] = []
    for time, capacity in costs:
        for machine in capacity.machines:
            team = time.team_by_node.get(machine.interval.node)
            (rest if team is None else idle_of.setdefault((team,), [])).append(machine.idle)
    known = {row.keys for row in report.rows}
    rows = (*report.rows, *map(_empty, sorted(idle_of.keys() - known)))
    beyond = sum((m.beyond_micro_usd for _, c in costs for m in c.machines), Fraction(0))
    return replace(
        with_parts(
            replace(report, rows=rows),
            [sum_usage(idle_of.get(row.keys, ())) for row in rows],
            sum_usage(rest),
            sum_usage(capacity.faults for _, capacity in costs),
        ),
        beyond_micro_usd=round_half_up(beyond),
    )


def _empty(keys: Keys) -> CostRow:
    return CostRow(
        keys=keys,
        runs=0,
        attempts=0,
        micro_usd=0,
        parts=(),
        scale=Scale(()),
        scaled_cost=0,
        idle=NO_USAGE,
    )
