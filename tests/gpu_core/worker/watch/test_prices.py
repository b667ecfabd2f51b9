"""Runs pay what the catalog in the ledger says, and split their cost where that changes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import anyio
import pytest
from prefect.client.schemas.objects import FlowRun

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.catalog.sheet import parse_sheet
from gpu_core.decisions.costs.usage_cost import usage_until
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.testing.builders import make_node
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.watch.prices import Prices
from tests.gpu_core.worker.attempts.test_registry import demand

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
NODE = make_node(
    labels={
        "node.kubernetes.io/instance-type": "p4de.24xlarge",
        "topology.kubernetes.io/region": "us-east-1",
    }
)


def catalog(**usd_by_day: float):
    prices = [
        {
            "region": "us-east-1",
            "capacity_type": "on-demand",
            "usd_per_hour": usd,
            "as_of": NOW.replace(hour=int(hour.removeprefix("at_"))).isoformat(),
        }
        for hour, usd in usd_by_day.items()
    ]
    row = {"gpu_type": "a100-80gb", "gpu_count": 8, "prices": prices}
    sheet = {"version": 1, "provider": "aws", "source": "a test", "as_of": "2026-01-01"}
    return parse_sheet(sheet | {"instance_types": {"p4de.24xlarge": row}})


@pytest.mark.parametrize("is_known_before", [True, False])
def test_a_refreshed_catalog_splits_the_cost_of_what_runs(
    tmp_path: Path, is_known_before: bool
) -> None:
    """From $2 (or from the policy's $3) to $4 an hour at 13:00, seen at 13:30."""
    run = FlowRun(id=uuid4(), flow_id=uuid4())
    placement = ClusterInfo([NODE]).find(Shape(gpu_count=2))
    policy = parse_policy({"version": 1, "prices": {"a100-80gb": {"on-demand": 3}}})
    key = str(run.id)

    async def story(ledger: Ledger) -> None:
        prices = Prices(ledger)
        attempts = AttemptRegistry("gpus", "host-1", tmp_path, ledger, prices=prices)
        await prices.refresh([NODE], NOW)
        await attempts.open({key: placement}, {key: demand(run)}, {}, policy, NOW)
        await attempts.reprice(policy, NOW)
        ledger.save_catalog(catalog(at_11=16, at_13=32), "aws", NOW + timedelta(hours=1))
        later = NOW + timedelta(hours=1, minutes=30)
        await prices.refresh([NODE], later)
        await attempts.reprice(policy, later)
        await attempts.reprice(policy, later + timedelta(hours=1))

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        if is_known_before:
            ledger.save_catalog(catalog(at_11=16), "aws", NOW)
        anyio.run(story, ledger)
        (found,) = ledger.open_attempts("gpus", "host-1")
    before = "catalog: aws p4de.24xlarge us-east-1 on-demand" if is_known_before else "policy"
    assert found.price_source == before
    (change,) = found.later_prices or ()
    assert change.since == change.rates.as_of == NOW + timedelta(hours=1)
    first_usd = 2 if is_known_before else 3
    assert usage_until(found, NOW + timedelta(hours=2)).micro_usd == 2 * (first_usd + 4) * 10**6
