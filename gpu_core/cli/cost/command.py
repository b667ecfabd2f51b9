"""`prefect-gpu cost report`: read the ledger, decide, print."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from enum import StrEnum

from prefect.client.orchestration import get_client
from prefect.utilities.asyncutils import run_coro_as_sync
from rich.console import Console

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.cost_slices import CostQuestion
from gpu_core.adapters.prefect.pool_blocks import read_ledger_url
from gpu_core.cli.cost.table import report_csv, report_document, report_table
from gpu_core.decisions.costs.cost_report import cost_report, parse_keys, period_window
from gpu_core.decisions.model.attempts import Provenance
from gpu_core.decisions.model.errors import InvalidInput


class Output(StrEnum):
    """How a report is printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def run_report(
    ledger_url: str,
    period: str,
    day: date,
    by: Sequence[str],
    *,
    pool: str | None,
    with_generated: bool,
    limit: int,
    output: Output,
) -> int:
    """Print what a period cost.

    Raises:
        InvalidInput: The period, a key or the ledger's address cannot be used.
        LedgerError: The ledger cannot be read.
    """
    window, keys = period_window(period, day), parse_keys(by)
    asked = CostQuestion(
        window=window,
        keys=keys,
        now=datetime.now(UTC),
        pool=pool,
        provenance=None if with_generated else Provenance.MEASURED,
    )
    with Ledger.open(ledger_url) as ledger:
        slices, counts = ledger.cost_slices(asked)
    report = cost_report(window, keys, slices, counts)
    if output is Output.JSON:
        print(json.dumps(report_document(report), indent=2))
    elif output is Output.CSV:
        print(report_csv(report), end="")
    else:
        Console().print(report_table(report, limit))
    return 0


def ledger_of_pool(pool: str | None) -> str:
    """The address of the pool's ledger, as the Prefect server knows it.

    Raises:
        InvalidInput: It knows none.
    """

    async def read() -> str | None:
        async with get_client() as client:
            return await read_ledger_url(client, pool)

    found: str | None = run_coro_as_sync(read())
    if found is None:
        raise InvalidInput(
            "ledger",
            "is not given, and the Prefect server knows none",
            remedy="name it with --ledger-file, or its pool with --pool",
        )
    return found
