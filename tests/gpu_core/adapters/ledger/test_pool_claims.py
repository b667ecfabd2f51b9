"""Two installations of a pool: the ledger has one claim, and lets only its owner open attempts."""

from dataclasses import replace

import pytest
import sqlalchemy as sa

from gpu_core.adapters.ledger import Ledger, PoolNotOurs
from gpu_core.adapters.ledger.engine import connect, parse_url
from gpu_core.decisions.checks.prefect.pool_claim import Installation, PoolClaim
from gpu_core.testing.builders.attempts import NOON, at, make_attempt, make_run

HERE = Installation(cluster="c1", namespace="gpu")
THERE = Installation(cluster="c1", namespace="gpu-2")


def claim_of(installation: Installation, **changes: object) -> PoolClaim:
    """What a worker of this installation asks for."""
    claim = PoolClaim(
        pool_id="pool-id",
        pool="gpu",
        installation=installation,
        holder=f"worker in {installation.namespace}",
        claimed_at=NOON,
        renewed_at=NOON,
        renewals=0,
    )
    return replace(claim, **changes)  # type: ignore[arg-type]


def test_the_first_one_has_the_claim_and_the_second_is_shown_it(ledger: Ledger) -> None:
    first = ledger.claim_pool(claim_of(HERE))
    second = ledger.claim_pool(claim_of(THERE))
    assert first.installation == second.installation == HERE
    assert second.holder == "worker in gpu"
    assert ledger.pool_claim("pool-id") == second


def test_another_pool_is_claimed_apart(ledger: Ledger) -> None:
    ledger.claim_pool(claim_of(HERE))
    other = ledger.claim_pool(claim_of(THERE, pool_id="of another server"))
    assert other.installation == THERE


def test_any_worker_of_the_installation_renews_it_and_it_counts_from_the_first(
    ledger: Ledger,
) -> None:
    first = ledger.claim_pool(claim_of(HERE))
    later = at(1)
    renewed = ledger.claim_pool(
        claim_of(HERE, holder="its standby", claimed_at=later, renewed_at=later)
    )
    assert renewed == replace(
        first, holder="its standby", renewed_at=later, renewals=first.renewals + 1
    )


def test_a_claim_that_was_renewed_after_it_was_watched_is_not_taken(ledger: Ledger) -> None:
    watched = ledger.claim_pool(claim_of(HERE))
    ledger.claim_pool(claim_of(HERE))
    assert ledger.claim_pool(claim_of(THERE), instead_of=watched).installation == HERE


def test_a_claim_that_did_not_change_is_taken_by_one(ledger: Ledger) -> None:
    watched = ledger.claim_pool(claim_of(HERE))
    third = Installation(cluster="c2", namespace="gpu")
    later = at(1)
    taken = ledger.claim_pool(claim_of(THERE, claimed_at=later), instead_of=watched)
    assert (taken.installation, taken.claimed_at) == (THERE, later)
    assert ledger.claim_pool(claim_of(third), instead_of=watched).installation == THERE


def test_who_lost_the_claim_opens_no_attempt(ledger_url: str) -> None:
    with Ledger.open(ledger_url) as first, Ledger.open(ledger_url) as second:
        watched = first.claim_pool(claim_of(HERE))
        records = [(make_run(), make_attempt())]
        assert second.claim_pool(claim_of(THERE), instead_of=watched).installation == THERE
        with pytest.raises(
            PoolNotOurs, match="namespace gpu-2 of this cluster acts for pool 'gpu'"
        ):
            first.admit(records)
        assert first.run(records[0][0].flow_run_id) is None
        assert second.admit(records)


def test_without_its_row_no_worker_opens_an_attempt(ledger: Ledger, ledger_url: str) -> None:
    ledger.claim_pool(claim_of(HERE))
    engine = connect(parse_url(ledger_url))
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM pool_claims"))
    engine.dispose()
    with pytest.raises(PoolNotOurs, match="deleted"):
        ledger.admit([(make_run(), make_attempt())])
    ledger.claim_pool(claim_of(HERE))
    assert ledger.admit([(make_run(), make_attempt())])
