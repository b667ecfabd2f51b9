"""`prefect-gpu ledger verify`: read the log of decisions, check its chains, print."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.cli.shared.exit_codes import DONE, NO
from gpu_core.decisions.attempts.decision_chain import ChainCheck


def run_verify(ledger_url: str, *, as_json: bool) -> int:
    """Print what the check of each chain found.

    Raises:
        InvalidInput: The ledger's address cannot be used.
        LedgerError: The ledger cannot be read.
    """
    with open_to_read(ledger_url) as ledger:
        checks = ledger.check_decisions()
    if as_json:
        print(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        print("\n".join(_lines(checks)))
    return NO if any(check.problem for check in checks) else DONE


def _lines(checks: Sequence[ChainCheck]) -> list[str]:
    if not checks:
        return ["The log of decisions is empty."]
    return [_line(check) for check in checks]


def _line(check: ChainCheck) -> str:
    if check.problem is not None:
        return f"{check.writer}: {check.problem}"
    end = f"the last hash is {check.head.hash}"
    return f"{check.writer}: {check.records:,} records fit together; {end}"
