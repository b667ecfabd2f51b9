"""The section about the use of GPUs on the page of a run."""

from datetime import UTC, datetime

from gpu_core.decisions.model.units import SECONDS_PER_HOUR, format_usd
from gpu_core.decisions.policy.idle import IdlePolicy
from gpu_core.decisions.telemetry.idle_state import IdleFinding

USE_KEY = "gpu-use"
"""The key of the artifact that shows a run how it uses its GPUs."""


def idle_warning(
    finding: IdleFinding,
    hourly_micro_usd: float | None,
    now: datetime,
    stops_at: datetime | None,
) -> str:
    """The text that warns the owner of an idle run.

    Args:
        finding: How it uses its GPUs.
        hourly_micro_usd: What it costs in an hour; None: it has no price.
        now: Aware.
        stops_at: When it is stopped if nothing changes; None: nothing stops it.
    """
    sentences = [finding.text]
    if finding.since is not None and hourly_micro_usd is not None:
        hours = (now - finding.since).total_seconds() / SECONDS_PER_HOUR
        cost = format_usd(round(hourly_micro_usd * hours))
        hourly = format_usd(round(hourly_micro_usd))
        sentences.append(f"That time cost {cost}; it costs {hourly} an hour.")
    if stops_at is not None:
        sentences.append(
            f"The run saves a checkpoint and stops at {stops_at.astimezone(UTC):%H:%M:%S} UTC."
        )
    else:
        sentences.append(
            "The run is not stopped automatically. Please cancel it if its work is complete."
        )
    return " ".join(sentences)


def idle_markdown(
    finding: IdleFinding,
    policy: IdlePolicy,
    hourly_micro_usd: float | None,
    now: datetime,
    stops_at: datetime | None,
) -> str:
    """The artifact of a run whose owner was warned.

    Args:
        finding: How it uses its GPUs now.
        policy: What counts as idle.
        hourly_micro_usd: What it costs in an hour; None: it has no price.
        now: Aware.
        stops_at: When it is stopped if nothing changes; None: nothing stops it.
    """
    text = (
        idle_warning(finding, hourly_micro_usd, now, stops_at)
        if finding.is_idle
        else f"The run is using its GPUs again. {finding.text}"
    )
    lines = [
        f"**{finding.state.value}** at {now.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        "",
        text,
    ]
    if finding.unused_gpu_ids:
        lines += ["", f"Never used: {', '.join(finding.unused_gpu_ids)}."]
    if finding.is_idle and policy.action == "stop":
        lines += [
            "",
            (
                "Any GPU or CPU activity or reported step prevents the run from being "
                "considered idle."
            ),
        ]
    return "\n".join(lines)
