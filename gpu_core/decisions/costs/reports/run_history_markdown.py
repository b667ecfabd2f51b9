"""The story of a run, as people read it: pure text from facts."""

import re
from collections.abc import Sequence
from itertools import groupby

from gpu_core.decisions.costs.mlflow.mlflow_views import MlflowPages
from gpu_core.decisions.costs.usage.usage import NO_USAGE, Usage, sum_usage
from gpu_core.decisions.costs.usage.usage_cost import format_cost, usage_until
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.markdown import table
from gpu_core.decisions.model.units import count, format_duration, format_usd
from gpu_core.decisions.telemetry.host_totals import host_text
from gpu_core.decisions.telemetry.summary import gpu_use
from gpu_core.decisions.telemetry.use_text import SIMULATED, use_cells

_KEY = re.compile(r"/(\d+)-(\d+)$")


# A window of 400 px shows each of these tables without scrolling sideways.
_COST = ("Attempt", "Cost", "Ended", "Held for")
_GPUS = ("Attempt", "GPUs", "Admitted (UTC)")
_USE = ("Attempt", "Utilization", "Energy")
_SAVES = ("Attempt", "Started from", "Saved")
COLUMNS = (*_COST, *_GPUS[1:], *_USE[1:], *_SAVES[1:])


def attempts_markdown(attempts: Sequence[Attempt], mlflow: MlflowPages | None = None) -> str:
    """The history of this run, with its cost.

    The total, one paragraph for each ending, and tables of the attempts: their cost with the total
    below, their GPUs, the use of these, and the checkpoints.

    Args:
        attempts: All of them so far, by number.
        mlflow: The pages of its run in MLflow, where the cost is next to its metrics; None: there
            are none.
    """
    # A run may be postponed for days: of those in a row the last one says all.
    shown = [list(alike) for _, alike in groupby(attempts, key=_postponed_or_itself)]
    stories = [
        f"**Attempt {alike[-1].number}:** {alike[-1].end_message}"
        for alike in shown
        if alike[-1].end_message
    ]
    costs = table(_COST, [*map(_cost_row, shown), _total_cost_row(attempts)])
    hosts = [
        f"**Processes of attempt {attempt.number}:** {host_text(attempt.host_summary)}."
        for attempt in attempts
        if attempt.host_summary is not None
    ]
    total = _total(attempts) + ("" if mlflow is None else _links(mlflow))
    use = gpu_use(summary for attempt in attempts for summary in attempt.gpu_summaries or ())
    use_rows = [*map(_use_row, shown), ("**Total**", *use_cells(use))]
    notes = [SIMULATED] if use.is_simulated else []
    tables = [costs, "### GPUs", table(_GPUS, map(_gpus_row, shown))]
    tables += ["### Utilization", table(_USE, use_rows), *notes, *hosts]
    tables += ["### Checkpoints", table(_SAVES, map(_save_row, shown))]
    return "\n\n".join([total, *stories, *tables]) + "\n"


def attempts_summary(attempts: Sequence[Attempt]) -> str:
    """The cost so far, and the last end: one short line for the list of artifacts."""
    last = attempts[-1]
    cost = format_cost(sum_usage(map(_usage, attempts)))
    ended = "still runs" if last.end_reason is None else f"last: {last.end_reason.value}"
    return f"{cost} in {count(len(attempts), 'attempt')}, {ended}"


def _links(mlflow: MlflowPages) -> str:
    compare = f"[Compare the runs of its experiment]({mlflow.view})"
    return f" [Open its MLflow run]({mlflow.run}). {compare}"


def _total(attempts: Sequence[Attempt]) -> str:
    over = [attempt for attempt in attempts if attempt.released_at is not None]
    usage = sum_usage(_usage(attempt) for attempt in over)
    held = "" if len(over) == len(attempts) else "; one is still running"
    return (
        f"**Total: {format_cost(usage)}** for {usage.gpu_hours:.4f} GPU-hours in "
        f"{count(len(over), 'attempt')}{held}."
    )


def _usage(attempt: Attempt) -> Usage:
    """The use and cost of an attempt that is over; nothing while it is not."""
    at = attempt.released_at
    return NO_USAGE if at is None else usage_until(attempt, at)


def _postponed_or_itself(attempt: Attempt) -> str:
    return attempt.attempt_id if attempt.has_run else "postponed"


def _total_cost_row(attempts: Sequence[Attempt]) -> tuple[str, ...]:
    over = [attempt for attempt in attempts if attempt.released_at is not None]
    held_s = sum((a.released_at - a.admitted_at).total_seconds() for a in over if a.released_at)
    cost = format_cost(sum_usage(map(_usage, over)))
    return ("**Total**", f"**{cost}**", "", format_duration(held_s))


def _numbers(alike: Sequence[Attempt]) -> str:
    last = alike[-1].number
    return f"{alike[0].number}–{last}" if len(alike) > 1 else str(last)


def _cost_row(alike: Sequence[Attempt]) -> tuple[str, ...]:
    attempt = alike[-1]
    held = (
        None
        if attempt.released_at is None
        else (attempt.released_at - attempt.admitted_at).total_seconds()
    )
    return (
        _numbers(alike),
        "–" if held is None else format_usd(_usage(attempt).total_micro_usd),
        "–" if attempt.end_reason is None else attempt.end_reason.value,
        "still held" if held is None else format_duration(held),
    )


def _gpus_row(alike: Sequence[Attempt]) -> tuple[str, ...]:
    attempt = alike[-1]
    gpus = f"{attempt.gpu_count} × {attempt.gpu_type}" if attempt.gpu_type else "none"
    return _numbers(alike), gpus, f"{attempt.admitted_at:%Y-%m-%d %H:%M}"


def _use_row(alike: Sequence[Attempt]) -> tuple[str, ...]:
    return _numbers(alike), *use_cells(gpu_use(alike[-1].gpu_summaries or ()))


def _save_row(alike: Sequence[Attempt]) -> tuple[str, ...]:
    attempt = alike[-1]
    return (
        _numbers(alike),
        _checkpoint(attempt.restored_from) or "the beginning",
        _checkpoint(attempt.checkpoint, by=attempt.number) or "nothing",
    )


def _checkpoint(key: str | None, by: int | None = None) -> str | None:
    """`save 3, by attempt 1` is what the key `RUN/000001-00000003` means to a reader.

    Args:
        key: Of the checkpoint; None: there is none.
        by: The attempt that it goes without saying for.
    """
    match = _KEY.search(key or "")
    if match is None:
        return key
    attempt, save = int(match[1]), int(match[2])
    return f"save {save}" if attempt == by else f"save {save}, by attempt {attempt}"
