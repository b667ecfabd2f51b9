"""The story of a run, as people read it: pure text from facts."""

import re
from collections.abc import Sequence
from itertools import groupby

from gpu_core.decisions.costs.mlflow_views import MlflowPages
from gpu_core.decisions.costs.usage import NO_USAGE, Usage, sum_usage
from gpu_core.decisions.costs.usage_cost import format_cost, usage_until
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.markdown import table
from gpu_core.decisions.model.units import count, format_duration, format_usd
from gpu_core.decisions.telemetry.summary import gpu_use
from gpu_core.decisions.telemetry.use_text import SIMULATED, use_cells

_KEY = re.compile(r"/(\d+)-(\d+)$")


# A narrow window shows the first three columns; the rest of the table is scrolled to.
HEAD = (
    *("Attempt", "Cost", "Ended", "Held for", "GPUs", "Utilisation", "Energy"),
    *("Admitted (UTC)", "Started from", "Saved"),
)


def attempts_markdown(attempts: Sequence[Attempt], mlflow: MlflowPages | None = None) -> str:
    """What happened to this run, and what did it cost?

    The total, one paragraph for each ending, and a table of all attempts with the total below.

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
    rows = [*map(_row, shown), _total_row(attempts)]
    total = _total(attempts) + ("" if mlflow is None else _links(mlflow))
    use = gpu_use(summary for attempt in attempts for summary in attempt.gpu_summaries or ())
    notes = [SIMULATED] if use.is_simulated else []
    return "\n\n".join([total, *stories, table(HEAD, rows), *notes]) + "\n"


def attempts_summary(attempts: Sequence[Attempt]) -> str:
    """What did it cost so far, and what ended it? One short line, for the list of artifacts."""
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
    held = "" if len(over) == len(attempts) else "; one still holds its GPUs"
    return (
        f"**Total: {format_cost(usage)}** for {usage.gpu_hours:.4f} GPU-hours in "
        f"{count(len(over), 'attempt')}{held}."
    )


def _usage(attempt: Attempt) -> Usage:
    """What it used and cost until it was over; nothing while it is not."""
    at = attempt.released_at
    return NO_USAGE if at is None else usage_until(attempt, at)


def _postponed_or_itself(attempt: Attempt) -> str:
    return attempt.attempt_id if attempt.has_run else "postponed"


def _total_row(attempts: Sequence[Attempt]) -> tuple[str, ...]:
    over = [attempt for attempt in attempts if attempt.released_at is not None]
    held_s = sum((a.released_at - a.admitted_at).total_seconds() for a in over if a.released_at)
    cost = format_cost(sum_usage(map(_usage, over)))
    use = gpu_use(summary for attempt in attempts for summary in attempt.gpu_summaries or ())
    head = ("**Total**", f"**{cost}**", "", format_duration(held_s), "", *use_cells(use))
    return (*head, *[""] * (len(HEAD) - len(head)))


def _row(alike: Sequence[Attempt]) -> tuple[str, ...]:
    attempt = alike[-1]
    numbers = f"{alike[0].number}–{attempt.number}" if len(alike) > 1 else str(attempt.number)
    gpus = f"{attempt.gpu_count} × {attempt.gpu_type}" if attempt.gpu_type else "none"
    held = (
        None
        if attempt.released_at is None
        else (attempt.released_at - attempt.admitted_at).total_seconds()
    )
    return (
        numbers,
        "–" if held is None else format_usd(_usage(attempt).total_micro_usd),
        "–" if attempt.end_reason is None else attempt.end_reason.value,
        "still held" if held is None else format_duration(held),
        gpus,
        *use_cells(gpu_use(attempt.gpu_summaries or ())),
        f"{attempt.admitted_at:%Y-%m-%d %H:%M}",
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
