"""The section of the nightly report on the savings of the month so far."""

from gpu_core.decisions.costs.savings.month_savings import MonthSavings
from gpu_core.decisions.costs.savings.tables import savings_notes, savings_tables
from gpu_core.decisions.model.markdown import cell, escaped, sentence, table


def savings_section(found: MonthSavings | None) -> list[str]:
    """Its paragraphs; none where the ledger has no machine whose prices are known."""
    if found is None or not found.micro_usd:
        return []
    window = found.window
    parts = [
        "## Savings this month",
        f"From {window.start:%Y-%m-%d %H:%M} up to {window.end:%Y-%m-%d %H:%M}, UTC.",
    ]
    for each in savings_tables(found):
        rows = [tuple(map(cell, row)) for row in each.rows]
        parts.append(f"### {each.title}\n\n{table(tuple(map(escaped, each.head)), rows)}")
    notes = [f"- {sentence(note)}." for note in savings_notes(found)]
    return [*parts, *(["\n".join(notes)] if notes else [])]
