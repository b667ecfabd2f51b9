"""Proposals from a ledger that holds generated and measured runs, and one history twice."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.optimization import read_optimization
from gpu_core.decisions.catalog.offerings import Catalog
from gpu_core.decisions.model.attempts import Provenance
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.propose import Optimization
from gpu_core.decisions.optimization.proposals.run_facts import Record
from gpu_core.decisions.policy.policy import parse_policy
from tests.gpu_core.decisions.optimization.proposals.test_propose import (
    DAY,
    NOW,
    ON_SPOT,
    WORK,
    history,
)

MEASURED = history(WORK, ON_SPOT)


def generated(records: list[Record]) -> list[Record]:
    """The same runs of another deployment, as generated ones."""
    return [
        (
            replace(
                *(run,),
                flow_run_id=f"g-{run.flow_run_id}", deployment="generated/gpu",
                provenance=Provenance.GENERATED,
            ),
            [
                replace(a, attempt_id=f"g-{a.attempt_id}", flow_run_id=f"g-{a.flow_run_id}")
                for a in attempts
            ],
        )
        for run, attempts in records
    ]  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger with both."""
    with Ledger.open(f"sqlite:///{tmp_path}/ledger.db") as opened:
        opened.import_records([*MEASURED, *generated(history(WORK))])
        yield opened


def proposals(ledger: Ledger, *, with_generated: bool) -> Optimization:
    """The proposals of the four weeks."""
    return read_optimization(
        *(ledger, Period.before(DAY), NOW),
        policy=parse_policy({"version": 1}, source="test"),
        catalog=Catalog(),
        pool=None,
        with_generated=with_generated,
    )


def test_generated_runs_beside_measured_ones_count_only_when_asked_and_are_named(
    ledger: Ledger,
) -> None:
    measured = proposals(ledger, with_generated=False)
    assert [(p.deployment, p.has_generated) for p in measured.proposals] == [("train/gpu", False)]
    both = proposals(ledger, with_generated=True)
    named = {p.deployment: p.has_generated for p in both.proposals}
    assert named == {"train/gpu": False, "generated/gpu": True}


def test_a_history_that_is_imported_twice_gives_the_same_proposals(ledger: Ledger) -> None:
    once = proposals(ledger, with_generated=False)
    ledger.import_records(MEASURED)
    assert proposals(ledger, with_generated=False) == once
