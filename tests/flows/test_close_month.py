"""The report of a month, run as people run it: a real server and a real ledger."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from prefect.artifacts import Artifact
from pydantic import SecretStr

from blocks.usage_ledger import UsageLedger
from flows.close_month import close_month
from gpu_core.adapters.ledger import Ledger, LedgerError
from gpu_core.adapters.ledger.database import Logged
from gpu_core.decisions.costs.reports.demo_history import generated_history
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.decision_chain import POLICY_TEXT, DecisionKind
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.attempts import admit, at, make_attempt, make_run
from tests.gpu_core.decisions.model.test_decision_chain import make_decision


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
    assert "**$3.00 for 3.00 GPU-hours in 1 run, 200% more than in the month before" in march
    close_month(date(2026, 2, 1))
    assert page("gpu-cost-2026-02") == first


def test_generated_runs_are_reported_apart(ledger: Ledger) -> None:
    ledger.import_records(generated_history(20, date(2026, 2, 20)))
    close_month(date(2026, 2, 10), with_generated=True)
    assert "> **With generated data.**" in page("gpu-cost-2026-02-with-generated")


def test_a_month_to_come_is_refused(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match="month has not started"):
        close_month(date(2999, 1, 1))


KEY = "a key of the platform team"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """Keeps decisions for two months."""
    path = tmp_path / "policy.yaml"
    path.write_text("version: 1\nretention: {decisions: 62d}\n")
    return path


def log_decisions(ledger: Ledger) -> None:
    """One of each of the first six months of 2026, on their first day."""
    decisions = [
        make_decision(month, decided_at=datetime(2026, month, 1, tzinfo=UTC))
        for month in range(1, 7)
    ]
    ledger.log(Logged("gpus@host-1", decisions))


def left(ledger: Ledger) -> list[int]:
    return [link.number for link in ledger.decisions()]


def test_decisions_that_the_policy_does_not_keep_go_when_a_month_is_closed(
    ledger: Ledger, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted back from the end of the month, so that an earlier month deletes no more."""
    log_decisions(ledger)
    close_month(date(2026, 4, 10))
    assert left(ledger) == [1, 2, 3, 4, 5, 6], "without a policy all are kept"
    monkeypatch.setenv("PREFECT_GPU_ANCHOR_KEY", KEY)
    close_month(date(2026, 4, 10), policy=policy)
    assert left(ledger) == [3, 4, 5, 6]  # 1 May less 62 days is 28 February
    close_month(date(2026, 2, 10), policy=policy)
    assert left(ledger) == [3, 4, 5, 6]
    (check,) = ledger.check_decisions(KEY.encode())
    assert (check.problem, check.purged, check.is_anchor_checked) == (None, 2, True)


def test_the_policy_that_the_workers_had_in_force_counts(
    ledger: Ledger, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_decisions(ledger)
    change = make_decision(
        9,
        decided_at=datetime(2026, 4, 20, tzinfo=UTC),
        kind=DecisionKind.POLICY_CHANGED,
        numbers={POLICY_TEXT: policy.read_text()},
    )
    ledger.log(Logged("gpus@host-2", [change]))
    monkeypatch.setenv("PREFECT_GPU_ANCHOR_KEY", KEY)
    close_month(date(2026, 4, 10))
    of_first = [link.number for link in ledger.decisions(writer="gpus@host-1")]
    assert of_first == [3, 4, 5, 6]


def test_nothing_is_deleted_without_a_key_and_where_a_chain_was_changed(
    ledger: Ledger, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_decisions(ledger)
    monkeypatch.delenv("PREFECT_GPU_ANCHOR_KEY", raising=False)
    with pytest.raises(InvalidInput, match="PREFECT_GPU_ANCHOR_KEY is required"):
        close_month(date(2026, 4, 10), policy=policy)
    monkeypatch.setenv("PREFECT_GPU_ANCHOR_KEY", KEY)
    with ledger._writer.begin() as connection:
        connection.execute(
            sa.text("UPDATE decisions SET decided_at = '2025-01-01' WHERE number = 2")
        )
    with pytest.raises(LedgerError, match="No decisions were deleted"):
        close_month(date(2026, 4, 10), policy=policy)
    assert left(ledger) == [1, 2, 3, 4, 5, 6]
    assert page("gpu-cost-2026-04"), "the month's report is there all the same"


def test_a_month_that_is_not_over_deletes_nothing(
    ledger: Ledger, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_decisions(ledger)
    monkeypatch.setenv("PREFECT_GPU_ANCHOR_KEY", KEY)
    close_month(datetime.now(UTC).date(), policy=policy)
    assert left(ledger) == [1, 2, 3, 4, 5, 6]
