"""The export against the published rules of FOCUS 1.2, and against what its numbers mean."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.costs.billing.charges import ChargedAmounts, Charges, Record
from gpu_core.decisions.costs.billing.focus import COLUMNS as COLUMNS_OF
from gpu_core.decisions.costs.billing.focus import FocusRow, FocusVersion, focus_rows
from gpu_core.decisions.costs.usage.usage import round_half_up, sum_usage
from gpu_core.decisions.costs.usage.usage_cost import Window, attempt_usage
from gpu_core.decisions.model.attempts import Attempt, RunRecord
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.prices import PriceChange, Rates
from gpu_core.testing.builders.attempts import NOON, at, make_attempt, make_run
from tests.gpu_core.adapters.ledger.test_capacity import make_interval
from tests.gpu_core.decisions.costs.billing.focus_rules import FocusRules

COLUMNS = COLUMNS_OF[FocusVersion.V1_2]
SUPPORTED = frozenset(
    {
        "ACCOUNT_NAMING_SUPPORTED",
        "AVAILABILITY_ZONE_SUPPORTED",
        "BILLING_BASED_ON_PROVISIONED_RESOURCES_SUPPORTED",
        "COMMITMENT_DISCOUNT_SUPPORTED",
        "MULTIPLE_PRICING_CATEGORIES_SUPPORTED",
        "NEGOTIATED_PRICING_SUPPORTED",
        "PUBLIC_PRICE_LIST_SUPPORTED",
        "RESOURCE_TYPE_ASSIGNMENT_SUPPORTED",
        "SUB_ACCOUNT_SUPPORTED",
        "TAGGING_SUPPORTED",
        "UNIT_PRICING_SUPPORTED",
        "USAGE_MEASUREMENT_SUPPORTED",
    }
)
CONTRADICTED = (
    "InvoiceId-C-005-C",
    "CommitmentDiscountQuantity-C-005-C",
    "CommitmentDiscountCategory-C-005-M",
    "CommitmentDiscountStatus-C-003-C",
    "CommitmentDiscountStatus-C-004-C",
    "CommitmentDiscountStatus-C-005-M",
)
"""Rules whose check contradicts their own words. Of the first three it leaves out the condition,
that a charge is on an invoice, or of a commitment. Those of the status demand one where there is no
commitment, and allow `Active`, `Expired` and `Pending` only, where DiscountHandling-A-014-C, -018-C
say `Used` and `Unused`: these words are checked below."""
MARCH = Window(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))
NOW = datetime(2026, 5, 1, tzinfo=UTC)
DEARER = PriceChange(since=at(1), rates=Rates(gpu_micro_usd_per_hour=3_670_001, source="catalog"))


def a_month() -> list[tuple[RunRecord, tuple[Attempt, ...]]]:
    """Runs that pay by themselves, and runs on a reserved machine."""
    return [*by_themselves(), *on_reserved()]


def by_themselves() -> list[tuple[RunRecord, tuple[Attempt, ...]]]:
    """Whole GPUs and parts, spot and reserved, CPU alone, another price, over the month's end."""
    full = {
        "price_source": "policy rates",
        "price_as_of": at(-100),
        "price_micro_usd_per_cpu_hour": 30_000,
        "price_micro_usd_per_gib_hour": 4_000,
        "cpu_milli": 8_000,
        "memory_mib": 65_536,
        "released_at": at(3),
    }
    part = full | {"gpu_quantity": Fraction(1, 7), "capacity_type": "spot", "zone": "use1-az4"}
    attempts = [
        make_attempt("whole", gpu_quantity=Fraction(8), later_prices=(DEARER,), **full),
        *(make_attempt(f"part-{n}", **part) for n in range(7)),
        make_attempt("cpu", gpu_ids=(), gpu_type=None, gpu_quantity=Fraction(0), **full),
        make_attempt("old", capacity_type="reserved", released_at=at(1000)),
        make_attempt("unpriced", price_micro_usd_per_gpu_hour=None, released_at=at(1)),
        make_attempt("short", released_at=NOON + timedelta(microseconds=1)),
    ]
    return [(make_run(a.flow_run_id, team=None if n % 3 else "vision"), (a,))
            for n, a in enumerate(attempts)]  # fmt: skip


MACHINES = (
    make_interval(
        "i-1", node="node-r", gpu_type="a10g", gpus=2, capacity_type="reserved",
        micro_usd_per_hour=3_000_001, since=at(-1), until=at(9), zone="use1-az4",
    ),
    make_interval(
        "i-2", node="node-r", gpu_type="a10g", gpus=2, capacity_type="reserved",
        micro_usd_per_hour=2_000_000, since=at(9), until=at(1000), seen_at=at(1000),
    ),
    make_interval("i-3", node="node-1", capacity_type="on-demand", until=at(9)),
    make_interval("i-4", node="unpriced", capacity_type="reserved", micro_usd_per_hour=None),
)  # fmt: skip
"""A reserved machine whose price changes and that crosses the month's end, and others."""


def on_reserved() -> list[tuple[RunRecord, tuple[Attempt, ...]]]:
    """Runs on the reserved machine: one of it alone, a gang, and two that overlap."""
    there = {"node": "node-r", "capacity_type": "reserved", "gpu_quantity": Fraction(1)}
    gang = tuple(NodeShare(node=node, gpu_ids=("0",)) for node in ("node-r", "node-1"))
    attempts = [
        make_attempt("alone", price_source="c", admitted_at=at(8), released_at=at(11), **there),
        make_attempt(
            "gang", shares=gang, price_source="c", released_at=at(5), cpu_milli=4_000,
            price_micro_usd_per_cpu_hour=30_000, **there | {"gpu_quantity": Fraction(2)},
        ),
        make_attempt(
            "dear", price_micro_usd_per_gpu_hour=5_000_000, price_source="c",
            admitted_at=at(9), released_at=at(999), **there,
        ),
    ]  # fmt: skip
    return [(make_run(a.flow_run_id), (a,)) for a in attempts]


def test_a_node_that_is_only_planned_is_no_resource() -> None:
    planned = make_attempt("run-1", bound_at=None)
    rows = list(focus_rows(Charges([(make_run("run-1"), (planned,))], MARCH, NOW)))
    assert rows
    assert {row["ResourceName"] for row in rows} == {None}


def test_what_has_freed_its_gpus_is_charged_until_then() -> None:
    gone = make_attempt("run-1", gone_at=at(0.5))
    (charge,) = Charges([(make_run("run-1"), (gone,))], MARCH, NOW)
    assert (charge.hours, charge.exact_micro_usd) == (Fraction(1, 2), 500_000)


def march() -> Charges:
    return Charges(a_month(), MARCH, NOW, MACHINES)


@pytest.fixture(scope="module")
def rules() -> FocusRules:
    path = Path(os.environ.get("PREFECT_GPU_DATA", "")) / "focus" / "model-1.2.json"
    if not path.is_file():
        pytest.skip("needs the rules of FOCUS: set PREFECT_GPU_DATA to the data folder")
    return FocusRules(json.loads(path.read_text(encoding="utf-8")), SUPPORTED, CONTRADICTED)


def test_the_file_keeps_every_applicable_rule(rules: FocusRules) -> None:
    rows = list(focus_rows(march()))
    checkable = [r for r in rules.rules.values() if r["ValidationCriteria"]["Requirement"]]
    # The other 201 are said in words only; of these, 334 are about what we support.
    assert (len(rules.rules), len(checkable)) == (621, 420)
    assert len(rules.applicable(COLUMNS)) == 334
    assert rules.broken(COLUMNS, rows) == []


def changed(name: str, value: str | None) -> Callable[[list[FocusRow]], None]:
    def change(rows: list[FocusRow]) -> None:
        rows[0][name] = value

    return change


def two_parents(rows: list[FocusRow]) -> None:
    rows[1]["SkuPriceId"], rows[1]["SkuId"] = rows[0]["SkuPriceId"], "another"


@pytest.mark.parametrize(
    ("kind", "change", "want_broken"),
    [
        pytest.param("CheckNotValue", changed("BilledCost", None), "BilledCost-C-003-M", id="null"),
        pytest.param("TypeDecimal", changed("ListCost", "3"), "ListCost-C-001-M", id="an integer"),
        pytest.param("FormatNumeric", changed("ListCost", "$3"), "ListCost-C-002-M", id="a sign"),
        pytest.param(
            "CheckDecimalValue", changed("BilledCost", "x"), "BilledCost-C-004-M", id="no number"
        ),
        pytest.param(
            "TypeDateTime", changed("ChargePeriodStart", "today"), "ChargePeriodStart-C-001-M",
            id="no moment",
        ),
        pytest.param(
            "FormatDateTime", changed("BillingPeriodEnd", "2026-04-01 00:00"),
            "BillingPeriodEnd-C-002-M", id="another form of moment",
        ),
        pytest.param("FormatString", changed("ResourceId", " a"), "ResourceId-C-002-M", id="blank"),
        pytest.param(
            "TypeString", changed("ServiceName", 3), "ServiceName-C-001-M", id="no text"  # type: ignore[arg-type]  # on purpose
        ),
        pytest.param(
            "FormatUnit", changed("PricingUnit", "gpu hours"), "PricingUnit-C-003-O", id="a unit"
        ),
        pytest.param(
            "FormatCurrency", changed("BillingCurrency", "dollars"), "BillingCurrency-C-003-M",
            id="a currency in words",
        ),
        pytest.param(
            "CheckNationalCurrency", changed("BillingCurrency", "XXX"), "BillingCurrency-C-006-M",
            id="a currency of no nation",
        ),
        pytest.param("FormatKeyValue", changed("Tags", "a=b"), "Tags-C-001-M", id="no JSON"),
        pytest.param(
            "OR", changed("ChargeCategory", "GPU"), "ChargeCategory-C-003-M", id="no category"
        ),
        pytest.param(
            "CheckGreaterOrEqualThanValue", changed("ListUnitPrice", "-1.0"),
            "ListUnitPrice-C-008-M", id="a negative price",
        ),
        pytest.param(
            "ColumnByColumnEqualsColumnValue", changed("ListCost", "999.0"), "ListCost-C-009-C",
            id="a cost that is not price times quantity",
        ),
        pytest.param(
            "CheckDistinctCount", two_parents, "SkuPriceId-C-008-M", id="two parents of a price"
        ),
        pytest.param(
            "CheckNotSameValue", changed("InvoiceIssuerName", "a shop"), "BilledCost-C-005-C",
            id="a third party is paid",
        ),
        pytest.param(
            "CheckValue", changed("ChargeClass", "Oops"), "ChargeClass-C-005-C", id="no class"
        ),
        pytest.param("AND", changed("SubAccountName", None), "SubAccountName-C-005-C", id="a name"),
    ],
)  # fmt: skip
def test_each_kind_of_check_sees_a_mistake(
    rules: FocusRules, kind: str, change: Callable[[list[FocusRow]], None], want_broken: str
) -> None:
    rows = list(focus_rows(march()))
    change(rows)
    broken = rules.broken(COLUMNS, rows)
    assert want_broken in broken
    # The composite rules of its column and of the file are broken with it.
    assert "CostAndUsage-D-000-M" in broken
    assert kind in rules.kinds


def test_a_missing_column_is_seen(rules: FocusRules) -> None:
    columns = [name for name in COLUMNS if name != "ServiceName"]
    assert "CostAndUsage-D-041-M" in rules.broken(columns, list(focus_rows(march())))


def dollars(rows: Iterable[FocusRow], column: str) -> Decimal:
    return sum((Decimal(str(row[column])) for row in rows), Decimal(0))


def test_the_bill_is_the_report_and_its_rows_mean_what_they_say() -> None:
    charges = march()
    rows = list(focus_rows(charges))
    of_runs = [row for row in rows if row["x_FlowRunId"] is not None]
    want = sum_usage(attempt_usage(a, NOW, MARCH) for _, (a,) in a_month())
    unused = sum((left.exact_micro_usd for left in charges.unused()), Fraction(0))
    whole = round_half_up(want.exact_micro_usd + unused)
    assert dollars(rows, "EffectiveCost") * 10**6 == whole
    assert dollars(rows, "BilledCost") * 10**6 == whole
    gpu_hours = dollars((r for r in of_runs if r["PricingUnit"] == "GPU-Hours"), "ConsumedQuantity")
    assert float(gpu_hours) == pytest.approx(want.gpu_hours - want.unpriced_gpu_s / 3600)
    assert (charges.unpriced_gpu_us, charges.unpriced_us) == (want.unpriced_gpu_us, 0)
    for row in rows:
        price, quantity, listed, effective = (
            Decimal(str(row[name]))
            for name in ("ListUnitPrice", "PricingQuantity", "ListCost", "EffectiveCost")
        )
        assert listed == price * quantity
        assert row["ChargeCategory"] == "Purchase" or abs(effective - listed) < Decimal("0.000001")
        assert str(row["BillingPeriodStart"]) <= str(row["ChargePeriodStart"])
        assert str(row["ChargePeriodStart"]) < str(row["ChargePeriodEnd"])
        assert str(row["ChargePeriodEnd"]) <= str(row["BillingPeriodEnd"])


def test_what_is_used_and_unused_of_a_reserved_machine_is_what_it_costs() -> None:
    """From 11:00 to 21:00 at $3.000001 an hour, and from then to the month's end at $2."""
    rows = [row for row in focus_rows(march()) if row["CommitmentDiscountId"] is not None]
    assert {row["CommitmentDiscountId"] for row in rows} == {"host-1/node-r"}
    bought = [row for row in rows if row["ChargeCategory"] == "Purchase"]
    usage = [row for row in rows if row["ChargeCategory"] == "Usage"]
    assert {row["CommitmentDiscountStatus"] for row in usage} == {"Used", "Unused"}
    assert {row["CommitmentDiscountStatus"] for row in bought} == {None}
    assert {row["CommitmentDiscountCategory"] for row in rows} == {"Usage"}
    assert [row["BilledCost"] for row in bought] == ["30.00001", "1302.0"]
    assert dollars(usage, "EffectiveCost") == dollars(bought, "BilledCost")
    assert (
        {row["BilledCost"] for row in usage} == {row["EffectiveCost"] for row in bought} == {"0.0"}
    )
    hours = dollars(usage, "CommitmentDiscountQuantity")
    assert float(hours) == pytest.approx(float(dollars(bought, "CommitmentDiscountQuantity")))
    unused = [row for row in usage if row["CommitmentDiscountStatus"] == "Unused"]
    # Of $30.00001 `alone` pays $1 and the gang's half $5.30. `dear` then pays $5 an hour of $2.
    assert [row["EffectiveCost"] for row in unused] == ["23.70001"]
    assert {row["ConsumedQuantity"] for row in unused} == {None}
    assert {row["ResourceId"] for row in unused} == {"host-1/node-r"}


def test_a_gang_uses_up_only_its_part_on_the_reserved_machine() -> None:
    rows = [row for row in focus_rows(march()) if row["x_FlowRunId"] == "gang"]
    used = [row for row in rows if row["CommitmentDiscountStatus"] == "Used"]
    assert [row["ConsumedQuantity"] for row in used] == ["5.0", "10.0"]
    assert dollars(rows, "EffectiveCost") == 2 * dollars(used, "EffectiveCost") == Decimal("10.6")


def test_a_pool_pays_for_its_reserved_machines_also_where_others_use_them() -> None:
    records = [(replace(run, pool="other"), attempts) for run, attempts in a_month()]
    charges = Charges(records, MARCH, NOW, MACHINES, "gpus")
    rows = list(focus_rows(charges))
    assert {row["CommitmentDiscountId"] for row in rows} == {"host-1/node-r"}
    assert dollars(rows, "BilledCost") == Decimal("1332.00001")
    assert charges.unpriced_gpu_us == 0


def test_a_charge_is_in_one_billing_period_and_at_one_price() -> None:
    charges = Charges(a_month(), Window(MARCH.start, NOW), NOW)
    of_old = [row for row in focus_rows(charges) if row["x_FlowRunId"] == "old"]
    assert [row["BillingPeriodStart"] for row in of_old] == [
        "2026-03-01T00:00:00Z",
        "2026-04-01T00:00:00Z",
    ]
    of_whole = [row for row in focus_rows(charges) if row["x_FlowRunId"] == "whole"]
    gpu = [row for row in of_whole if row["PricingUnit"] == "GPU-Hours"]
    assert [(row["ListUnitPrice"], row["PricingQuantity"]) for row in gpu] == [
        ("1.0", "8.0"),
        ("3.670001", "16.0"),
    ]


def test_records_without_reserved_machines_are_read_once_and_not_kept() -> None:
    """A bill of any size: the charges of a run are made before the next run is read."""
    read: list[str] = []

    def records() -> Iterator[Record]:
        for run, attempts in a_month():
            read.append(run.flow_run_id)
            yield run, attempts

    made = [(charge.run.flow_run_id, read[-1]) for charge in Charges(records(), MARCH, NOW)]
    assert all(of_run == last_read for of_run, last_read in made)
    assert [run.flow_run_id for run, _ in a_month()] == read


def test_seven_instances_are_billed_as_one_gpu() -> None:
    parts = [charge for charge in march() if charge.run.flow_run_id.startswith("part")]
    gpus = [charge for charge in parts if charge.resource.value == "GPU"]
    assert sum(charge.hours for charge in gpus) == 3
    assert sum(charge.exact_micro_usd for charge in gpus) == 3_000_000


@given(hours=st.lists(st.integers(1, 10**10), max_size=8), quantity=st.sampled_from(["1/7", "1/3"]))
def test_any_file_adds_up_to_the_report(hours: list[int], quantity: str) -> None:
    base = make_attempt(gpu_quantity=Fraction(quantity), price_source="policy")
    records = [
        (
            make_run(f"run-{n}"),
            (
                replace(
                    base,
                    attempt_id=f"run-{n}/1",
                    flow_run_id=f"run-{n}",
                    released_at=NOON + timedelta(microseconds=us),
                ),
            ),
        )
        for n, us in enumerate(hours)
    ]
    charges = Charges(records, MARCH, NOW)
    want = sum_usage(attempt_usage(a, NOW, MARCH) for _, (a,) in records)
    amounts = ChargedAmounts()
    for charge in charges:
        amounts.add(charge)
    assert sum(amounts.micro_usd()) == want.micro_usd
    assert not list(charges.unused())
