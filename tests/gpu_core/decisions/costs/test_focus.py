"""The export against the published rules of FOCUS 1.2, and against what its numbers mean."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.costs.charges import Charges, charges_of
from gpu_core.decisions.costs.focus import COLUMNS as COLUMNS_OF
from gpu_core.decisions.costs.focus import FocusRow, FocusVersion, focus_rows
from gpu_core.decisions.costs.usage import sum_usage
from gpu_core.decisions.costs.usage_cost import Window, attempt_usage
from gpu_core.decisions.model.attempts import Attempt, RunRecord
from gpu_core.decisions.model.prices import PriceChange, Rates
from gpu_core.testing.builders.attempts import NOON, at, make_attempt, make_run
from tests.gpu_core.decisions.costs.focus_rules import FocusRules

COLUMNS = COLUMNS_OF[FocusVersion.V1_2]
SUPPORTED = frozenset(
    {
        "ACCOUNT_NAMING_SUPPORTED",
        "AVAILABILITY_ZONE_SUPPORTED",
        "BILLING_BASED_ON_PROVISIONED_RESOURCES_SUPPORTED",
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
ON_AN_INVOICE = ("InvoiceId-C-005-C",)
"""The model leaves out its condition, that a charge is on an invoice, and so contradicts its
InvoiceId-C-004-C. Our charges are on none."""
MARCH = Window(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))
NOW = datetime(2026, 5, 1, tzinfo=UTC)
DEARER = PriceChange(since=at(1), rates=Rates(gpu_micro_usd_per_hour=3_670_001, source="catalog"))


def a_month() -> list[tuple[RunRecord, tuple[Attempt, ...]]]:
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


def test_a_node_that_is_only_planned_is_no_resource() -> None:
    planned = make_attempt("run-1", bound_at=None)
    rows = list(focus_rows(charges_of([(make_run("run-1"), (planned,))], MARCH, NOW)))
    assert rows
    assert {row["ResourceName"] for row in rows} == {None}


def march() -> Charges:
    return charges_of(a_month(), MARCH, NOW)


@pytest.fixture(scope="module")
def rules() -> FocusRules:
    path = Path(os.environ.get("PREFECT_GPU_DATA", "")) / "focus" / "model-1.2.json"
    if not path.is_file():
        pytest.skip("needs the rules of FOCUS: set PREFECT_GPU_DATA to the data folder")
    return FocusRules(json.loads(path.read_text(encoding="utf-8")), SUPPORTED, ON_AN_INVOICE)


def test_the_file_keeps_every_applicable_rule(rules: FocusRules) -> None:
    rows = list(focus_rows(march()))
    checkable = [r for r in rules.rules.values() if r["ValidationCriteria"]["Requirement"]]
    # The other 201 are said in words only; of these, 281 are about what we support.
    assert (len(rules.rules), len(checkable)) == (621, 420)
    assert len(rules.applicable(COLUMNS)) == 281
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


def test_the_bill_is_the_report_and_its_rows_mean_what_they_say() -> None:
    charges = march()
    rows = list(focus_rows(charges))
    want = sum_usage(attempt_usage(a, NOW, MARCH) for _, (a,) in a_month())
    assert sum(Decimal(str(row["BilledCost"])) for row in rows) * 10**6 == want.micro_usd
    gpu_hours = sum(
        Decimal(str(r["ConsumedQuantity"])) for r in rows if r["PricingUnit"] == "GPU-Hours"
    )
    assert float(gpu_hours) == pytest.approx(want.gpu_hours - want.unpriced_gpu_s / 3600)
    assert (charges.unpriced_gpu_us, charges.unpriced_us) == (want.unpriced_gpu_us, 0)
    for row in rows:
        price, quantity, listed, billed = (
            Decimal(str(row[name]))
            for name in ("ListUnitPrice", "PricingQuantity", "ListCost", "BilledCost")
        )
        assert listed == price * quantity
        assert abs(billed - listed) < Decimal("0.000001")
        assert str(row["BillingPeriodStart"]) <= str(row["ChargePeriodStart"])
        assert str(row["ChargePeriodStart"]) < str(row["ChargePeriodEnd"])
        assert str(row["ChargePeriodEnd"]) <= str(row["BillingPeriodEnd"])


def test_a_charge_is_in_one_billing_period_and_at_one_price() -> None:
    charges = charges_of(a_month(), Window(MARCH.start, NOW), NOW)
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


def test_seven_instances_are_billed_as_one_gpu() -> None:
    parts = [charge for charge in march().charges if charge.run.flow_run_id.startswith("part")]
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
    charges = charges_of(records, MARCH, NOW)
    want = sum_usage(attempt_usage(a, NOW, MARCH) for _, (a,) in records)
    assert sum(charges.micro_usd()) == want.micro_usd
