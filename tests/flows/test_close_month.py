"""The report of a month, run as people run it: a real server and a real ledger."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from prefect.artifacts import Artifact
from pydantic import SecretStr

from blocks.usage_ledger import UsageLedger
from flows.close_month import close_month
from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.costs.demo_history import generated_history
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.attempts import admit, at, make_attempt, make_run


@pytest.fixture
def ledger(prefect_server: None, tmp_path: Path) -> Iterator[Ledger]:
    """A ledger that the flow finds by its block, with one run over the end of February."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    UsageLedger(url=SecretStr(url)).save("default", overwrite=True)
    over_the_end = {"admitted_at": at(-24 * 4 + 11), "released_at": at(-24 * 4 + 15)}
    with Ledger.open(url) as opened:
        admit(opened, make_attempt(end_reason=EndReason.COMPLETED, **over_the_end), make_run())
        yield opened


def page(key: str) -> str:
    """The newest report as people see it."""
    artifact = Artifact.get(key)
    assert artifact is not None
    return str(artifact.data)


def test_months_add_up_and_repeating_one_changes_nothing(ledger: Ledger) -> None:
    close_month(date(2026, 2, 10))
    close_month(date(2026, 3, 31))
    first = page("gpu-cost-2026-02")
    assert "**$1.00 for 1.00 GPU-hours in 1 run.**" in first
    march = page("gpu-cost-2026-03")
    assert "**$3.00 for 3.00 GPU-hours in 1 run, 200 % more than in the month before" in march
    close_month(date(2026, 2, 1))
    assert page("gpu-cost-2026-02") == first


def test_generated_runs_are_reported_apart(ledger: Ledger) -> None:
    ledger.import_records(generated_history(20, date(2026, 2, 20)))
    close_month(date(2026, 2, 10), with_generated=True)
    assert "> **With generated data.**" in page("gpu-cost-2026-02-with-generated")


def test_a_month_to_come_is_refused(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match="month has not started"):
        close_month(date(2999, 1, 1))
