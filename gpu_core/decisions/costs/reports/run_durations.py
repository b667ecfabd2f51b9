"""The durations and delays of each deployment's runs: p50 to p99 with a plot."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from gpu_core.decisions.model.attempts import Attempt, RunRecord
from gpu_core.decisions.model.markdown import cell, table
from gpu_core.decisions.model.units import count, format_duration, require_aware

PERIOD = timedelta(days=30)
"""The age up to which runs count, by the end of their last attempt."""

ARTIFACT_KEY = "gpu-run-durations"

_PERCENTS = (50, 75, 90, 95, 99)
_MOST_PLOTTED = 10
_WIDTH, _ROW, _LEFT, _RIGHT = 400, 24, 180, 60
_MOST_LETTERS = 26
_STYLE = 'font-family="sans-serif" font-size="12" fill="#8a8f98"'


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentDurations:
    """The finished runs of one deployment. Percentiles in the order of p50, p75, p90, p95, p99."""

    deployment: str
    runs: int
    run_time_s: tuple[float, ...]
    """From the start of the first attempt to the end of the last one, without the waits between."""
    lateness_s: tuple[float, ...]
    """From the scheduled start to the start of the first attempt."""


def deployment_durations(
    records: Iterable[tuple[RunRecord, Sequence[Attempt]]], now: datetime
) -> tuple[DeploymentDurations, ...]:
    """How long do runs take and how late do they start, by deployment?

    Counted are runs that are over, whose last attempt ended in the 30 days before `now`, and that
    have a deployment. The run time is the sum of the attempts that started.

    Args:
        records: Rows of the ledger: each run with its attempts by number.
        now: Aware.

    Returns:
        The deployments with the longest p50 of the run time first, then by name.
    """
    since = require_aware(now, "now") - PERIOD
    by_deployment: dict[str, list[tuple[float, float]]] = {}
    for run, attempts in records:
        measured = _measured(run, attempts, since, now)
        if run.deployment is not None and measured is not None:
            by_deployment.setdefault(run.deployment, []).append(measured)
    found = [
        DeploymentDurations(
            deployment=deployment,
            runs=len(rows),
            run_time_s=percentiles([run_time_s for run_time_s, _ in rows]),
            lateness_s=percentiles([lateness_s for _, lateness_s in rows]),
        )
        for deployment, rows in by_deployment.items()
    ]
    return tuple(sorted(found, key=lambda each: (-each.run_time_s[0], each.deployment)))


def percentiles(values: Sequence[float]) -> tuple[float, ...]:
    """The values that 50, 75, 90, 95 and 99% do not exceed, by the nearest rank.

    Args:
        values: At least one, in any order.
    """
    ordered = sorted(values)
    return tuple(ordered[ceil(len(ordered) * percent / 100) - 1] for percent in _PERCENTS)


def durations_markdown(found: Sequence[DeploymentDurations]) -> str:
    """The page: a plot of p50 to p99, and both tables."""
    title = f"# Run time and lateness by deployment over {PERIOD.days} days"
    if not found:
        return f"{title}\n\nNo completed deployment runs found in this period.\n"
    head = ("Deployment", "Runs", *(f"p{percent}" for percent in _PERCENTS))
    parts = [title, "## Run time", _plot(found)]
    for name, values in (("", "run_time_s"), ("## Lateness", "lateness_s")):
        rows = [
            (cell(each.deployment), f"{each.runs:,}", *map(_rounded, getattr(each, values)))
            for each in found
        ]
        parts += [name] if name else []
        parts.append(table(head, rows))
    return "\n\n".join(parts) + "\n"


def _measured(
    run: RunRecord, attempts: Sequence[Attempt], since: datetime, now: datetime
) -> tuple[float, float] | None:
    """Run time and lateness in seconds; None: it is not over, is older, or never started."""
    started = [attempt for attempt in attempts if attempt.started_at is not None]
    stays = [(a.started_at, a.released_at) for a in started if a.started_at and a.released_at]
    if run.final_state is None or not stays or len(stays) < len(started):
        return None
    if not since < max(end for _, end in stays) <= now:
        return None
    run_time_s = sum(((end - start) for start, end in stays), timedelta()).total_seconds()
    first = min(start for start, _ in stays)
    return run_time_s, max(0.0, (first - run.submitted_at).total_seconds())


def _plot(found: Sequence[DeploymentDurations]) -> str:
    """A line from p50 to p99 of the run time for each of the first deployments."""
    shown = found[:_MOST_PLOTTED]
    longest_s = max([1.0, *(each.run_time_s[-1] for each in shown)])
    rows = "".join(_row(each, number, longest_s) for number, each in enumerate(shown))
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{len(shown) * _ROW}" '
        f"{_STYLE}>{rows}</svg>"
    )
    in_words = ", ".join(
        f"{_plain(each.deployment)}: {_rounded(each.run_time_s[0])} to "
        f"{_rounded(each.run_time_s[-1])}"
        for each in shown
    )
    more = count(len(found) - len(shown), "deployment")
    note = (
        f"\n\n{more} with shorter runs are listed in the table." if len(found) > len(shown) else ""
    )
    picture = b64encode(svg.encode()).decode()
    return f"![p50 to p99: {in_words}](data:image/svg+xml;base64,{picture}){note}"


def _row(each: DeploymentDurations, number: int, longest_s: float) -> str:
    room = _WIDTH - _LEFT - _RIGHT
    left, right = (_LEFT + room * each.run_time_s[place] / longest_s for place in (0, -1))
    middle = number * _ROW + _ROW // 2
    return (
        f'<text x="0" y="{middle + 4}">{_label(each.deployment)}</text>'
        f'<rect x="{left:.1f}" y="{middle - 3}" width="{max(2.0, right - left):.1f}" height="6" '
        f'fill="#4f83cc"/>'
        f'<circle cx="{left:.1f}" cy="{middle}" r="5" fill="#d9822b"/>'
        f'<text x="{right + 8:.1f}" y="{middle + 4}">{_rounded(each.run_time_s[-1])}</text>'
    )


def _label(name: str) -> str:
    """The end of a long name: deployments of one flow differ there."""
    plain = _plain(name)
    return plain if len(plain) <= _MOST_LETTERS else f"…{plain[1 - _MOST_LETTERS :]}"


def _plain(name: str) -> str:
    """A name without characters that mean something in SVG or in a picture's description."""
    return "".join(c if c.isalnum() or c in "-_./ " else "?" for c in name)


def _rounded(seconds: float) -> str:
    return format_duration(round(seconds, 1) if seconds < 60 else round(seconds))
