"""One price for each hour: your own rates, then the catalog, then the policy; never two at once."""

from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.adapters.files.catalog_file import shipped_catalog
from gpu_core.adapters.files.policy_file import load_policy
from gpu_core.decisions.catalog.offerings import Catalog, InstanceType, OfferingKey, TypeKey
from gpu_core.decisions.catalog.sheet import parse_sheet
from gpu_core.decisions.costs.prices.price_book import (
    PriceBook,
    PricedCapacity,
    price_fields,
    split,
    with_price_of_now,
)
from gpu_core.decisions.model.cluster import Machine
from gpu_core.decisions.model.prices import Rates
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.testing.builders.attempts import at, make_attempt
from gpu_core.testing.builders.workloads import make_node

POLICY_PRICES = {"prices": {"a100-80gb": {"on-demand": 3.0}}, "prices_as_of": "2026-02-01"}
OWN = {"rates": {"on-demand": {"gpu": {"a100-80gb": 2.0}, "cpu_core": 0.03, "memory_gib": 0.004}}}
A_GPU = PricedCapacity(gpu_type="a100-80gb", capacity_type="on-demand")
NO_GPU = PricedCapacity(gpu_type=None, capacity_type="on-demand")


def catalog(*prices: dict[str, Any], **machine: Any) -> Catalog:
    row = {"gpu_type": "a100-80gb", "gpu_count": 8} | machine | {"prices": list(prices)}
    sheet = {"version": 1, "provider": "aws", "source": "s", "as_of": "2026-01-01"}
    return parse_sheet(sheet | {"instance_types": {"p4de.24xlarge": row}})


def price(usd: float, zone: str | None = None, capacity_type: str = "on-demand", **row: Any) -> Any:
    place = {"region": "us-east-1", "capacity_type": capacity_type, "usd_per_hour": usd}
    return place | ({} if zone is None else {"zone": zone}) | row


def machine(zone: str | None = None, capacity_type: str = "on-demand") -> PricedCapacity:
    return PricedCapacity(
        gpu_type="a100-80gb",
        capacity_type=capacity_type,
        instance_type="p4de.24xlarge",
        region="us-east-1",
        zone=zone,
    )


def asked(
    capacity: PricedCapacity,
    *sections: dict[str, Any],
    known: Catalog | None = None,
    when: float = 0,
) -> Rates | None:
    policy = parse_policy({"version": 1} | {k: v for one in sections for k, v in one.items()})
    return PriceBook(policy=policy, catalog=known or Catalog()).rates(capacity, at(when))


@pytest.mark.parametrize(
    ("capacity", "sections", "known", "want"),
    [
        pytest.param(A_GPU, (), None, None, id="no price is known"),
        pytest.param(A_GPU, (POLICY_PRICES,), None, (3_000_000, "policy"), id="the policy"),
        pytest.param(
            machine(), (POLICY_PRICES,), catalog(price(16)), (2_000_000, "catalog: aws"),
            id="the catalog before the policy",
        ),
        pytest.param(
            machine(), (POLICY_PRICES, OWN), catalog(price(16)), (2_000_000, "policy rates"),
            id="your own rates before both",
        ),
        pytest.param(
            A_GPU, (POLICY_PRICES,), catalog(price(16)), (3_000_000, "policy"),
            id="a machine of an unknown instance type is not in the catalog",
        ),
        pytest.param(
            machine("use1-az4", "spot"), (),
            catalog(price(8, "use1-az4", "spot"), price(4, "use1-az6", "spot")),
            (1_000_000, "use1-az4 spot"), id="the zone's own price",
        ),
        pytest.param(
            machine(None, "spot"), (),
            catalog(price(8, "use1-az4", "spot"), price(4, "use1-az6", "spot")),
            None, id="an unknown zone, with two prices, has none",
        ),
        pytest.param(
            machine(), (POLICY_PRICES,), catalog(price(16, from_memory=True)),
            (3_000_000, "policy"), id="a price from memory counts as unknown",
        ),
        pytest.param(NO_GPU, (POLICY_PRICES,), None, None, id="no GPU, and no rates: unpriced"),
        pytest.param(NO_GPU, (OWN,), None, (None, "policy rates"), id="no GPU: your own rates"),
    ],
)  # fmt: skip
def test_the_first_source_that_knows_counts(
    capacity: PricedCapacity,
    sections: tuple[dict[str, Any], ...],
    known: Catalog | None,
    want: tuple[int | None, str] | None,
) -> None:
    found = asked(capacity, *sections, known=known)
    if want is None:
        assert found is None
        return
    assert found is not None
    assert found.gpu_micro_usd_per_hour == want[0]
    assert want[1] in found.source


def test_rates_come_from_one_source_and_keep_its_day() -> None:
    own, policy = asked(A_GPU, POLICY_PRICES, OWN), asked(A_GPU, POLICY_PRICES)
    assert own is not None
    assert policy is not None
    assert (own.cpu_micro_usd_per_hour, own.gib_micro_usd_per_hour) == (30_000, 4_000)
    assert (policy.cpu_micro_usd_per_hour, policy.gib_micro_usd_per_hour) == (None, None)
    assert policy.as_of == datetime(2026, 2, 1, tzinfo=UTC)


def test_the_price_that_was_valid_at_that_time_counts() -> None:
    known = catalog(
        price(16, as_of="2026-03-04T11:00:00Z"), price(24, as_of="2026-03-04T13:00:00Z")
    )
    found = {hours: asked(machine(), known=known, when=hours) for hours in (-2, 0, 2)}
    assert found[-2] is None
    assert [r and r.gpu_micro_usd_per_hour for r in found.values()] == [None, 2_000_000, 3_000_000]


@given(
    micro_usd=st.integers(1, 10**9),
    gpus=st.integers(1, 16),
    vcpus=st.integers(1, 512),
    memory_gib=st.integers(1, 4096),
)
def test_the_parts_of_a_machine_never_cost_more_than_the_machine(
    micro_usd: int, gpus: int, vcpus: int, memory_gib: int
) -> None:
    rates = split(
        micro_usd,
        InstanceType(
            key=TypeKey("aws", "m"),
            gpu_type="t4",
            gpu_count=gpus,
            vcpus=vcpus,
            memory_gib=float(memory_gib),
        ),
        source="s",
        as_of=None,
    )
    parts = ((rates.gpu_micro_usd_per_hour, gpus), (rates.cpu_micro_usd_per_hour, vcpus),
             (rates.gib_micro_usd_per_hour, memory_gib))  # fmt: skip
    total = sum((rate or 0) * amount for rate, amount in parts)
    assert micro_usd - (gpus + vcpus + memory_gib) < total <= micro_usd


def test_a_machine_is_split_in_the_proportions_of_opencost() -> None:
    """Its example: components of 30, 30 and 10 on a machine of half their sum cost half each."""
    known = catalog(price(10), gpu_count=1, vcpus=8, memory_gib=32)
    rates = asked(machine(), known=known)
    assert rates is not None
    assert rates.gpu_micro_usd_per_hour is not None
    assert rates.cpu_micro_usd_per_hour is not None
    ratio = Fraction(rates.cpu_micro_usd_per_hour, rates.gpu_micro_usd_per_hour)
    assert float(ratio) == pytest.approx(0.031611 / 0.95, rel=1e-4)


def test_a_node_says_what_machine_it_is_and_where() -> None:
    node = make_node(
        capacity_type="spot",
        labels={
            "node.kubernetes.io/instance-type": "p4de.24xlarge",
            "topology.kubernetes.io/region": "us-east-1",
            "topology.kubernetes.io/zone": "us-east-1a",
            "topology.k8s.aws/zone-id": "use1-az4",
        },
    )
    assert PricedCapacity.of_node(node) == machine("use1-az4", "spot")


@pytest.mark.parametrize(
    ("rates", "want_since"),
    [
        pytest.param(Rates(gpu_micro_usd_per_hour=5, source="s"), at(2), id="from now on"),
        pytest.param(
            Rates(gpu_micro_usd_per_hour=5, source="s", as_of=at(1)), at(1),
            id="from the time that the source gives",
        ),
        pytest.param(
            Rates(gpu_micro_usd_per_hour=5, source="s", as_of=at(-1)), at(2),
            id="never for a time before the admission",
        ),
        pytest.param(Rates(gpu_micro_usd_per_hour=4, source="s", as_of=at(1)), None, id="the same"),
        pytest.param(None, None, id="what has a price never becomes unpriced"),
    ],
)  # fmt: skip
def test_another_price_counts_from_its_own_moment(
    rates: Rates | None, want_since: datetime | None
) -> None:
    first = Rates(gpu_micro_usd_per_hour=4, source="policy")
    attempt = make_attempt(**price_fields(first))
    changed = with_price_of_now(attempt, rates, at(2))
    if want_since is None:
        assert changed is attempt
        return
    (change,) = changed.later_prices or ()
    assert (change.since, change.rates) == (want_since, rates)
    assert with_price_of_now(changed, rates, at(3)) is changed


def test_the_example_policy_has_the_prices_of_the_catalog() -> None:
    """One GPU has one price: a person who compares both files finds the same."""
    policy = load_policy(Path("deployments/policy.yaml"))
    known = shipped_catalog()
    prices = [
        known.micro_usd_per_gpu_hour(offering)
        for key, offering in known.offerings.items()
        if key.instance_type == "p4de.24xlarge" and key.region == "us-east-1"
        and key.capacity_type == "spot"
    ]  # fmt: skip
    on_demand = known.offerings[OfferingKey("aws", "p4de.24xlarge", "us-east-1", None, "on-demand")]
    cent = 10_000
    of_policy = policy.price_micro_usd_per_gpu_hour
    assert of_policy("a100-80gb", "spot") == round(min(prices) / cent) * cent
    want = round(known.micro_usd_per_gpu_hour(on_demand) / cent) * cent
    assert of_policy("a100-80gb", "on-demand") == want
    assert policy.prices_as_of == on_demand.price.seen_from.replace(hour=0, minute=0, second=0)


def test_an_own_sheet_counts_before_the_catalog_and_after_the_rates() -> None:
    """It may know fewer machines, and another time."""
    known, own = catalog(price(32)), catalog(price(16, as_of=at(1).isoformat()))
    policy = parse_policy({"version": 1} | POLICY_PRICES)
    book = PriceBook(policy=policy, sheet=own, catalog=known)
    before, after = book.rates(machine(), at(0)), book.rates(machine(), at(2))
    assert before is not None
    assert after is not None
    assert (before.gpu_micro_usd_per_hour, after.gpu_micro_usd_per_hour) == (4_000_000, 2_000_000)
    assert after.source == "price sheet: aws p4de.24xlarge us-east-1 on-demand"
    eight = Machine(gpus=8)
    assert book.machine_price(machine(), eight, at(2)) == (16_000_000, after.source, at(1))
    elsewhere = PriceBook(
        policy=policy, sheet=catalog(price(1, capacity_type="spot")), catalog=known
    )
    assert elsewhere.rates(machine(), at(0)) == before
    with_rates = PriceBook(policy=parse_policy({"version": 1} | OWN), sheet=own)
    found = with_rates.rates(machine(), at(2))
    assert found is not None
    assert found.source == "policy rates"
