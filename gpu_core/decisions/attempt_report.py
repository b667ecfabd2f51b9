"""The story of a run, as people read it: pure text from facts."""

import re
from collections.abc import Sequence
from itertools import groupby

from gpu_core.decisions.accounting import Attempt, EndReason
from gpu_core.decisions.cost import usage_until
from gpu_core.decisions.units import format_duration, format_usd

_KEY = re.compile(r"/(\d+)-(\d+)$")


def attempts_markdown(attempts: Sequence[Attempt]) -> str:
    """What happened to this run, attempt by attempt? A table and one paragraph for each ending."""
    lines = [
        "| Attempt | GPUs | Admitted (UTC) | Held for | Ended | Began with | Checkpoint | Cost |",
        "|---|---|---|---|---|---|---|---|",
    ]
    # A run may be postponed for days: of those in a row the last one tells all.
    told = [list(alike) for _, alike in groupby(attempts, key=_postponed_or_itself)]
    lines += [_row(alike) for alike in told]
    stories = [
        f"**Attempt {alike[-1].number}:** {alike[-1].end_message}"
        for alike in told
        if alike[-1].end_message
    ]
    return "\n".join(lines) + "".join(f"\n\n{story}" for story in stories) + "\n"


def _postponed_or_itself(attempt: Attempt) -> str:
    return "postponed" if attempt.end_reason is EndReason.POSTPONED else attempt.attempt_id


def _row(alike: Sequence[Attempt]) -> str:
    attempt = alike[-1]
    numbers = f"{alike[0].number}–{attempt.number}" if len(alike) > 1 else str(attempt.number)
    gpus = f"{attempt.gpu_count} × {attempt.gpu_type}" if attempt.gpu_type else "none"
    held = (
        None
        if attempt.released_at is None
        else (attempt.released_at - attempt.admitted_at).total_seconds()
    )
    cost = (
        None
        if attempt.released_at is None
        else usage_until(attempt, attempt.released_at).total_micro_usd
    )
    cells = (
        numbers,
        gpus,
        f"{attempt.admitted_at:%Y-%m-%d %H:%M:%S}",
        "still held" if held is None else format_duration(held),
        "–" if attempt.end_reason is None else attempt.end_reason.value,
        _checkpoint(attempt.restored_from) or "the beginning",
        _checkpoint(attempt.checkpoint) or "none",
        "–" if attempt.released_at is None else format_usd(cost),
    )
    return f"| {' | '.join(cells)} |"


def _checkpoint(key: str | None) -> str | None:
    """`3rd save of attempt 1` is what the key `RUN/000001-00000003` means to a reader."""
    match = _KEY.search(key or "")
    return key if match is None else f"save {int(match[2])}, by attempt {int(match[1])}"
