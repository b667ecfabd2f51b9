"""`prefect-gpu optimize ask`: understand the question, read the ledger, print the answer."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpu_core.adapters.ledger.policy_in_force import policy_in_file, policy_in_force
from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.cli.shared.tables import print_table, simple_table
from gpu_core.cli.shared.terminal import wrapped
from gpu_core.decisions.model.attempts import Provenance
from gpu_core.decisions.model.units import format_usd
from gpu_core.decisions.optimization.questions.answers import Answer, AnswerRow, answer
from gpu_core.decisions.optimization.questions.borrowing import Quotas
from gpu_core.decisions.optimization.questions.parsing import parse_question
from gpu_core.decisions.optimization.questions.questions import Unit


def run_ask(
    question: str,
    ledger_url: Callable[[], str],
    *,
    pool: str | None,
    with_generated: bool,
    policy: Path | None,
    limit: int,
    as_json: bool,
) -> int:
    """Print the answer. The ledger is asked for when the question is understood.

    Raises:
        InvalidInput: The question is not known, the policy cannot be used or has no quotas, or the
            ledger's address cannot be used.
        LedgerError: The ledger cannot be read.
    """
    now = datetime.now(UTC)
    asked = parse_question(question, now)
    given = policy_in_file(policy)
    provenance = None if with_generated else Provenance.MEASURED
    with open_to_read(ledger_url()) as ledger:
        records = ledger.usage(
            asked.window.start, asked.window.end, provenance=provenance, pool=pool
        )
        capacity = ledger.capacity(asked.window.start, asked.window.end)
        section = policy_in_force(given, ledger, pool, min(now, asked.window.end)).policy.quotas
    machines = [machine for machine in capacity if pool in (None, machine.pool)]
    quotas = None if section is None else Quotas(section, machines)
    found = answer(asked, records, now, quotas)
    if as_json:
        print(json.dumps(answer_document(found), indent=2))
    else:
        _print(found, max(1, limit))
    return 0


def answer_document(found: Answer) -> dict[str, Any]:
    """The answer for machines: money in micro-USD, unknown as null."""
    question, window = found.asked.question, found.asked.window
    return {
        "question": question.text,
        "start": window.start.isoformat(),
        "end": window.end.isoformat(),
        "by": question.by,
        "unit": "micro_usd" if question.kind.unit is Unit.USD else question.kind.unit.value,
        "rows": [_row(row) for row in found.rows],
        "total": found.total,
        "origin": found.origin,
    }


def _row(row: AnswerRow) -> dict[str, Any]:
    named = {} if row.flow_run_id is None else {"flow_run_id": row.flow_run_id}
    return {"key": row.key, "amount": row.amount, **named}


def _print(found: Answer, limit: int) -> None:
    question = found.asked.question
    title = question.text[0].upper() + question.text[1:]
    table = simple_table("")
    table.add_column((question.by or "all").replace("_", " "), overflow="fold")
    table.add_column("", justify="right", no_wrap=True)
    shown, others = found.rows[:limit], found.rows[limit:]
    for row in shown:
        table.add_row(row.key or "(none)", _amount(question.kind.unit, row.amount))
    if others and found.total is not None:
        rest = sum(row.amount for row in others)
        table.add_row(f"{len(others):,} others", _amount(question.kind.unit, rest))
    if found.total is not None and len(found.rows) > 1:
        table.add_section()
        table.add_row("all", _amount(question.kind.unit, found.total))
    print(wrapped(title if found.rows else f"{title}: no results found."))
    if found.rows:
        print_table(table)
    print(wrapped(f"From {found.origin}."))


def _amount(unit: Unit, amount: int | float) -> str:
    match unit:
        case Unit.USD:
            return format_usd(round(amount))
        case Unit.GPU_HOURS:
            return f"{amount:,.2f} GPU-hours"
        case Unit.HOURS:
            return f"{amount:,.2f} h"
        case Unit.RATIO:
            return f"{100 * amount:.0f}%"
    return f"{round(amount):,}"
