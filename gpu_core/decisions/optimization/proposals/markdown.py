"""Proposals as people read them: in Prefect's UI, and in a terminal."""

from collections.abc import Sequence

from gpu_core.decisions.model.markdown import cell, escaped, sentence, table
from gpu_core.decisions.model.units import format_duration, format_usd
from gpu_core.decisions.optimization.proposals.analysis import Analysis
from gpu_core.decisions.optimization.proposals.proposal import Change, Proposal, Saving
from gpu_core.decisions.optimization.proposals.propose import Optimization

_MOST_ROWS = 10


def percent_range(saving: Saving) -> str:
    """The interval as people read it: `31% to 62%`."""
    return f"{saving.low:.0%} to {saving.high:.0%}"


def saving_sentence(proposal: Proposal) -> str:
    """The saving, for people. An interval that is too narrow promises no probability."""
    saving, too_narrow = proposal.saving, proposal.kind.rule.too_narrow
    low, expected, high = (
        format_usd(saving.micro_usd(part)) for part in (saving.low, saving.expected, saving.high)
    )
    return (
        f"{expected} of {format_usd(saving.monthly_cost_micro_usd)} in 30 days "
        f"({saving.expected:.0%}); between {low} and {high} "
        f"{'' if too_narrow else 'in 80% of the cases '}({percent_range(saving)})"
    )


def change_text(change: Change) -> str:
    """The change as people read it: `capacity_type: spot (runs had on-demand)`."""
    return f"{change.variable}: {change.proposed} (runs had {change.observed})"


def wait_sentence(proposal: Proposal) -> str:
    """The effect on waits and deadlines."""
    if proposal.waits is None:
        return "The effects on wait times and deadlines are unknown."
    before, after = proposal.waits.before_s, proposal.waits.after_s
    return (
        "In the simulation, the mean wait time of all runs changes from "
        f"{format_duration(before)} to {format_duration(after)}, assuming that all requested "
        "GPUs become available. Deadlines are not recorded in the ledger."
    )


def proposal_lines(proposal: Proposal) -> list[str]:
    """All that is said about a proposal, as plain sentences."""
    generated = ["The evidence includes generated runs."] if proposal.has_generated else []
    held = proposal.kind.rule.too_narrow
    narrow = [f"The range is too narrow. It contained the saving in {held} generated histories."]
    return [
        *(change_text(change) for change in proposal.changes),
        proposal.why,
        *proposal.evidence,
        *generated,
        f"Period: {proposal.first_day} to {proposal.last_day}.",
        f"Saving: {saving_sentence(proposal)}.",
        *(narrow if held else []),
        wait_sentence(proposal),
        f"Risk: {proposal.risk}",
        f"Undo: {proposal.undo}",
    ]


def report_lines(proposal: Proposal) -> list[str]:
    """The sentences about a proposal, and the command that asks a person whether to apply it."""
    return [*proposal_lines(proposal), f"Apply: {proposal.apply}"]


def to_markdown(found: Optimization) -> str:
    """The whole as a page of Markdown. The same input always gives the same page."""
    period = found.period
    parts = [
        f"# GPU cost and proposed savings, {period.first} to {period.last}",
        f"**{_headline(found)}**",
        escaped(found.calibration.sentence),
        *(_section(proposal) for proposal in found.proposals),
        *_workloads(found.analysis),
        *_waste(found.analysis),
    ]
    return "\n\n".join(parts) + "\n"


def _headline(found: Optimization) -> str:
    spent = f"{format_usd(found.analysis.cost_micro_usd)} in {found.period.days} days"
    if not found.proposals:
        return f"{spent}. No changes are recommended."
    return f"{spent}. Proposed changes: {len(found.proposals)}."


def _section(proposal: Proposal) -> str:
    lines = [f"- {sentence(line)}" for line in report_lines(proposal)]
    title = f"## {proposal.proposal_id}: {escaped(proposal.deployment)}"
    return "\n".join([title, "", *lines])


def _workloads(analysis: Analysis) -> list[str]:
    rows = [
        (cell(w.deployment), format_usd(w.cost_micro_usd), f"{w.gpu_hours:,.1f}", f"{w.runs:,}")
        for w in analysis.workloads[:_MOST_ROWS]
    ]
    return _titled("Most expensive deployments", ("Deployment", "Cost", "GPU-h", "Runs"), rows)


def _waste(analysis: Analysis) -> list[str]:
    rows = [
        (cell(waste.kind), format_usd(waste.cost_micro_usd), escaped(waste.note))
        for waste in analysis.waste
    ]
    return _titled("Wasted cost", ("Kind", "Cost", "Basis"), rows)


def _titled(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"## {title}\n\n{table(head, rows)}"] if rows else []
