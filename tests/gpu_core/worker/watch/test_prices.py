"""Runs pay what the catalog in the ledger says, and split their cost where that changes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import anyio
import pytest
from prefect.client.schemas.objects import FlowRun

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.catalog.sheet import parse_sheet
from gpu_core.decisions.costs.usage.usage_cost import usage_until
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.cluster import Machine
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.testing.builders.workloads import make_node
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.watch.prices import Prices
from tests.support.demands import make_demand

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
        await attempts.open({key: placement}, {key: make_demand(run)}, {}, policy, NOW)
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


def test_plans_use_the_prices_of_the_refreshed_catalog(tmp_path: Path) -> None:
    """$3 by the policy, $2 by the catalog of 11:00, and $4 once that of 13:00 is read."""
    policy = parse_policy({"version": 1, "prices": {"a100-80gb": {"on-demand": 3}}})
    machine = replace(NODE, machine=Machine(gpus=8))
    later = NOW + timedelta(hours=2)
    found = []

    async def story(ledger: Ledger) -> None:
        prices = Prices(ledger)
        found.append(prices.planned_with(policy, [machine], NOW))
        for refreshed_at, known in ((NOW, catalog(at_11=16)), (later, catalog(at_11=16, at_13=32))):
            ledger.save_catalog(known, "aws", refreshed_at)
            await prices.refresh([machine], refreshed_at)
            found.append(prices.planned_with(policy, [machine], refreshed_at))

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        anyio.run(story, ledger)
    reported = [p.price_micro_usd_per_gpu_hour("a100-80gb", "on-demand") for p in found]
    assert reported == [3_000_000, 2_000_000, 4_000_000]


def test_a_ledger_that_was_away_is_asked_again_in_the_next_cycle() -> None:
    """Until then runs would pay the policy's price, and their cost would be split for nothing."""
    answers: list[Exception | datetime] = [ConnectionError("away"), NOW, NOW]

    def refreshed_at() -> datetime:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    known = SimpleNamespace(catalog_refreshed_at=refreshed_at, catalog=lambda: catalog(at_11=16))
    policy = parse_policy({"version": 1, "prices": {"a100-80gb": {"on-demand": 3}}})
    placement = ClusterInfo([NODE]).find(Shape(gpu_count=2))
    prices = Prices(known)

    async def story() -> None:
        with pytest.raises(ConnectionError):
            await prices.refresh([NODE], NOW)
        await prices.refresh([NODE], NOW + timedelta(seconds=1))

    anyio.run(story)
    found = prices.rates(placement, policy, NOW)
    assert found is not None
    assert found.gpu_micro_usd_per_hour == 2_000_000


@pytest.mark.parametrize("fails", ["", "first"])
def test_a_run_keeps_its_price_while_its_node_is_not_seen_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """Its machine is unknown for a moment; and a row that cannot be written is one run's."""
    runs = {name: FlowRun(id=uuid4(), flow_id=uuid4(), name=name) for name in ("first", "second")}
    placement = ClusterInfo([NODE]).find(Shape(gpu_count=2))
    policy = parse_policy({"version": 1, "prices": {"a100-80gb": {"on-demand": 3}}})

    async def story(ledger: Ledger) -> None:
        prices = Prices(ledger)
        attempts = AttemptRegistry("gpus", "host-1", tmp_path, ledger, prices=prices)
        await prices.refresh([NODE], NOW)
        demands = {str(run.id): make_demand(run) for run in runs.values()}
        await attempts.open(dict.fromkeys(demands, placement), demands, {}, policy, NOW)
        await attempts.reprice(policy, NOW)
        ledger.save_catalog(catalog(at_11=16, at_13=32), "aws", NOW + timedelta(hours=1))
        for minutes, nodes in ((70, []), (80, [NODE]), (90, [NODE])):
            moment = NOW + timedelta(minutes=minutes)
            await prices.refresh(nodes, moment)
            await attempts.reprice(policy, moment)
            assert all(not running.attempt.later_prices for running in attempts) or nodes

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        ledger.save_catalog(catalog(at_11=16), "aws", NOW)
        real = ledger.add_price

        def add_price(attempt: Attempt) -> bool:
            if fails and attempt.flow_run_id == str(runs[fails].id):
                raise ValueError("this row is damaged")
            return real(attempt)

        monkeypatch.setattr(ledger, "add_price", add_price)
        anyio.run(story, ledger)
        found = {a.flow_run_id: a for a in ledger.open_attempts("gpus", "host-1")}
    repriced = {name for name, run in runs.items() if found[str(run.id)].later_prices}
    assert repriced == {"first", "second"} - {fails}


def test_an_own_price_sheet_is_read_again_and_its_last_good_version_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """$32 for 8 GPUs, then $16, then a mistake, then no file."""
    sheet, machine = tmp_path / "prices.yaml", replace(NODE, machine=Machine(gpus=8))
    policy = parse_policy({"version": 1})
    text = """
version: 1
provider: ours
source: our contract
as_of: 2026-01-01
instance_types:
  p4de.24xlarge:
    {gpu_type: a100-80gb, gpu_count: 8,
     prices: [{region: us-east-1, capacity_type: on-demand, usd_per_hour: 32}]}
"""
    found = []

    async def story(ledger: Ledger) -> None:
        prices = Prices(ledger, sheet)
        versions = (text, text.replace("32", "16"), text.replace("32", "many"), None)
        for minutes, version in enumerate(versions):
            if version is None:
                sheet.unlink()
            else:
                sheet.write_text(version)
            now = NOW + timedelta(minutes=2 * minutes)
            await prices.refresh([machine], now)
            news = prices.are_new(policy)
            prices.note_applied(policy)
            found.append((prices.of_machine(machine, Machine(gpus=8), policy, now), news))

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        anyio.run(story, ledger)
    assert [(price.micro_usd_per_hour, news) for price, news in found] == [
        (32_000_000, True),
        (16_000_000, True),
        (16_000_000, False),
        (16_000_000, False),
    ]
    assert [r.getMessage().partition(":")[0] for r in caplog.records if "sheet" in r.msg] == [
        "Failed to load price sheet"
    ] * 2
