"""Proposals are published as a page, from the ledger that the pool's block names."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from prefect.artifacts import Artifact
from pydantic import SecretStr

from blocks.usage_ledger import UsageLedger
from flows.propose_savings import propose_savings
from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.proposals import read_proposals
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityChanges
from gpu_core.decisions.costs.reports.demo_history import generated_history
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.optimization.proposals.savings_report import ARTIFACT_KEY
from tests.gpu_core.adapters.ledger.test_capacity import make_interval

DAY = date(2026, 11, 25)


@pytest.fixture
def ledger_url(prefect_server: None, tmp_path: Path) -> str:
    """A ledger of two generated months that the flow finds by its block."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    UsageLedger(url=SecretStr(url)).save("default", overwrite=True)
    with Ledger.open(url) as ledger:
        ledger.import_records(generated_history(56, date(2026, 11, 24)))
    return url


def page() -> str:
    """The newest page as people see it."""
    artifact = Artifact.get(ARTIFACT_KEY)
    assert artifact is not None
    return str(artifact.data)


def test_the_page_has_each_proposal_with_its_evidence_and_is_the_same_again(
    ledger_url: str,
) -> None:
    propose_savings(DAY, with_generated=True)
    first = page()
    for text in ("Proposed changes: 2", "capacity\\_type: spot", "80%", "Risk: ", "GPU-hours"):
        assert text in first
    propose_savings(DAY, with_generated=True)
    assert page() == first


def test_generated_runs_count_only_when_asked(ledger_url: str) -> None:
    propose_savings(DAY)
    assert "No changes are recommended" in page()


def test_a_policy_that_is_missing_is_named(ledger_url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"policy\.yaml"):
        propose_savings(DAY, policy=tmp_path / "policy.yaml")


def test_a_commitment_is_shown_and_neither_asked_for_nor_looked_up(
    ledger_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy = tmp_path / "policy.yaml"
    prices = "prices: {a100-80gb: {on-demand: 2.0, reserved: 1.2}}"
    policy.write_text(f"version: 1\n{prices}\n")
    machine = make_interval(
        since=datetime(2026, 10, 1, tzinfo=UTC), seen_at=datetime(2026, 11, 25, 1, tzinfo=UTC)
    )
    with Ledger.open(ledger_url) as ledger:
        ledger.write_capacity(CapacityChanges((), (machine,)), [], machine.seen_at)
    propose_savings(DAY, with_generated=True, policy=policy)
    assert "reserved machines: 1" in page()
    assert "purchase the commitment from the provider" in page()
    missing = next(
        line
        for line in page().splitlines()
        if line.startswith("Unable to modify deployments that do not exist on this server")
    )
    assert "reserved-" not in missing
    with Ledger.open(ledger_url) as ledger:
        assert not any(name.startswith("reserved-") for name in read_proposals(ledger))
