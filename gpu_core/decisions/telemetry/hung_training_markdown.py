"""The section about a hang on the page of a run."""

from collections.abc import Mapping
from datetime import UTC, datetime

from gpu_core.decisions.model.units import SECONDS_PER_HOUR, format_usd
from gpu_core.decisions.telemetry.hung_training import HangFinding

HANG_KEY = "gpu-hang"
"""The key of the artifact that shows a run where it hangs."""

_MOST_STACKS = 16
_LONGEST_STACK = 4000


def hang_sentence(finding: HangFinding, hourly_micro_usd: float | None, now: datetime) -> str:
    """The sentence that says how the run hangs, and the cost of it.

    Args:
        finding: The hang.
        hourly_micro_usd: What the run costs in an hour; None: it has no price.
        now: Aware.
    """
    if hourly_micro_usd is None:
        return finding.text
    hours = (now - finding.since).total_seconds() / SECONDS_PER_HOUR
    cost = format_usd(round(hourly_micro_usd * hours))
    return f"{finding.text} The time without progress cost {cost}."


def hang_markdown(
    finding: HangFinding,
    stacks: Mapping[int, str],
    hourly_micro_usd: float | None,
    now: datetime,
) -> str:
    """The artifact of a run that hangs, with the stacks of its ranks, those at fault first.

    Args:
        finding: The hang.
        stacks: Of each rank that answered, with its main thread first.
        hourly_micro_usd: What the run costs in an hour; None: it has no price.
        now: Aware.
    """
    lines = [
        f"**{finding.kind.value}** at {now.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
        "",
        hang_sentence(finding, hourly_micro_usd, now),
    ]
    shown = sorted(stacks, key=lambda rank: (rank not in finding.ranks, rank))
    for rank in shown[:_MOST_STACKS]:
        text = stacks[rank].strip()[:_LONGEST_STACK].replace("```", "'''")
        lines += ["", f"Rank {rank}, the innermost frames first:", "", "```", text, "```"]
    if len(shown) > _MOST_STACKS:
        lines += ["", f"{len(shown) - _MOST_STACKS} more ranks have responded."]
    if not shown:
        lines += ["", "No stack traces have been received."]
    return "\n".join(lines)
