"""Charges as rows of FOCUS 1.2 and 1.4, the FinOps Foundation's format of bills.

Source: FOCUS specification 1.2 (focus.finops.org, May 2025), and the data model of 1.4, which names
the service provider and the host provider where 1.2 has a provider and a publisher; other columns
are the same. Columns that have no meaning here are left out: reservations of capacity apart from
their price, other currencies and regions.

A reserved machine is a commitment by the hour: its purchase is billed, the charges of its runs are
billed nothing and have their part of its cost as `EffectiveCost`, and what is left is a row of its
own that is unused.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Protocol

from gpu_core.decisions.costs.billing.charges import (
    Charge,
    ChargedAmounts,
    Charges,
    CommittedTime,
    Resource,
    billing_period,
)
from gpu_core.decisions.costs.usage.usage import Exact, round_half_up
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.errors import InvalidInput, listed
from gpu_core.decisions.model.units import MICRO_USD_PER_USD

PROVIDER = "prefect-gpu"

_QUANTITY_DIGITS = 12
_UNITS = {
    Resource.GPU: "GPU-Hours",
    Resource.CPU: "Core-Hours",
    Resource.MEMORY: "GiB-Hours",
}
_MACHINE_UNIT = "Hours"
_PRICING_CATEGORIES = {"on-demand": "Standard", "spot": "Dynamic", "reserved": "Committed"}

FocusRow = dict[str, str | None]


class FocusVersion(StrEnum):
    """A version of the format."""

    V1_2 = "1.2"
    V1_4 = "1.4"


_ALL_COLUMNS = (
    "AvailabilityZone", "BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency",
    "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass",
    "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart",
    "CommitmentDiscountCategory", "CommitmentDiscountId", "CommitmentDiscountName",
    "CommitmentDiscountQuantity", "CommitmentDiscountStatus", "CommitmentDiscountType",
    "CommitmentDiscountUnit",
    "ConsumedQuantity", "ConsumedUnit", "ContractedCost", "ContractedUnitPrice", "EffectiveCost",
    "HostProviderName",
    "InvoiceId", "InvoiceIssuerName", "ListCost", "ListUnitPrice", "PricingCategory",
    "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName", "ResourceId",
    "ResourceName", "ResourceType", "ServiceCategory", "ServiceName",
    "ServiceProviderName", "ServiceSubcategory", "SkuId", "SkuMeter", "SkuPriceDetails",
    "SkuPriceId", "SubAccountId", "SubAccountName",
    "Tags", "x_AttemptNumber", "x_FlowRunId", "x_PriceAsOf", "x_PriceSource",
)  # fmt: skip
_COMMITMENT_COLUMNS = tuple(name for name in _ALL_COLUMNS if name.startswith("Commitment"))
_OF_ONE_VERSION = {
    FocusVersion.V1_2: frozenset({"ProviderName", "PublisherName"}),
    FocusVersion.V1_4: frozenset({"HostProviderName", "ServiceProviderName"}),
}

COLUMNS = {
    version: tuple(
        name
        for name in _ALL_COLUMNS
        if name in mine or not any(name in names for names in _OF_ONE_VERSION.values())
    )
    for version, mine in _OF_ONE_VERSION.items()
}
"""Of each version, in the order of the file."""

DECIMAL_COLUMNS = frozenset(
    {
        "BilledCost", "CommitmentDiscountQuantity", "ConsumedQuantity", "ContractedCost",
        "ContractedUnitPrice",
        "EffectiveCost", "ListCost", "ListUnitPrice", "PricingQuantity",
    }
)  # fmt: skip
MOMENT_COLUMNS = frozenset(
    {
        "BillingPeriodEnd", "BillingPeriodStart", "ChargePeriodEnd", "ChargePeriodStart",
        "x_PriceAsOf",
    }
)  # fmt: skip


def parse_focus_version(text: str) -> FocusVersion:
    """The version of FOCUS that a text names.

    Raises:
        InvalidInput: It is none of those that are written (field `focus`).
    """
    names = tuple(version.value for version in FocusVersion)
    if text not in names:
        raise InvalidInput("focus", "is not a version", got=text, allowed=listed(names))
    return FocusVersion(text)


class KeptRows(Protocol):
    """A store of rows, in their order, until the amounts of all are known."""

    def append(self, row: FocusRow, /) -> None:
        """Keep one more."""

    def __iter__(self) -> Iterator[FocusRow]:
        """All of them."""


def focus_rows(charges: Charges, kept: KeptRows | None = None) -> Iterator[FocusRow]:
    """The rows of a file, one for each charge, with the columns of all versions.

    Their `EffectiveCost` adds up to the report and what is unused of reserved machines, and so does
    their `BilledCost`.

    Args:
        charges: Read once.
        kept: Empty; None: the rows are kept in memory.
    """
    rows: KeptRows = [] if kept is None else kept
    amounts, times = ChargedAmounts(), []
    for charge in charges:
        amounts.add(charge)
        times.append(charge.commitment)
        rows.append(_row(charge))
    unused = list(charges.unused())
    for left in unused:
        amounts.add(left)
    whole = amounts.micro_usd()
    bought: dict[CommittedTime, int] = {}
    for row, time in zip(rows, times, strict=True):
        micro_usd = next(whole)
        yield _with_amount(row, micro_usd)
        if time is not None:
            bought[time] = bought.get(time, 0) + micro_usd
    for left, micro_usd in zip(unused, whole, strict=True):
        time = left.commitment
        yield _purchase(time, bought.get(time, 0) + micro_usd)
        if left.exact_micro_usd:
            yield _unused(time, left.exact_micro_usd, micro_usd)


def _with_amount(row: FocusRow, micro_usd: int) -> FocusRow:
    """The row of a charge with what it costs; a reserved machine was billed when it was bought."""
    amount = _text(Decimal(micro_usd) / MICRO_USD_PER_USD)
    billed = amount if row["CommitmentDiscountId"] is None else "0.0"
    return row | {"BilledCost": billed, "EffectiveCost": amount}


def _purchase(time: CommittedTime, micro_usd: int) -> FocusRow:
    return _machine_row(time, time.exact_micro_usd) | {
        "BilledCost": _text(Decimal(micro_usd) / MICRO_USD_PER_USD),
        "ChargeCategory": "Purchase",
        "ChargeDescription": f"Reserved machine {time.interval.node}",
        "ChargeFrequency": "Recurring",
        "EffectiveCost": "0.0",
    }


def _unused(time: CommittedTime, exact_micro_usd: Exact, micro_usd: int) -> FocusRow:
    return _machine_row(time, exact_micro_usd) | {
        "BilledCost": "0.0",
        "ChargeCategory": "Usage",
        "ChargeDescription": f"Unused time of reserved machine {time.interval.node}",
        "ChargeFrequency": "Usage-Based",
        "CommitmentDiscountStatus": "Unused",
        "EffectiveCost": _text(Decimal(micro_usd) / MICRO_USD_PER_USD),
    }


def _machine_row(time: CommittedTime, exact_micro_usd: Exact) -> FocusRow:
    """The columns that a machine's purchase and its unused rest have in common."""
    machine, month = time.interval, billing_period(time.period.start)
    price = Decimal(time.unit_micro_usd) / MICRO_USD_PER_USD
    hours = _rounded(time.hours(exact_micro_usd))
    name = machine.instance_type or f"{machine.gpus}x{machine.gpu_type}"
    return (
        dict.fromkeys(_ALL_COLUMNS)
        | _commitment(time, exact_micro_usd)
        | {
            "AvailabilityZone": machine.zone,
            "BillingAccountId": machine.pool,
            "BillingAccountName": f"Work pool {machine.pool}",
            "BillingCurrency": "USD",
            "BillingPeriodEnd": _moment(month.end),
            "BillingPeriodStart": _moment(month.start),
            "ChargePeriodEnd": _end(time.period),
            "ChargePeriodStart": _moment(time.period.start),
            "ContractedCost": _text(price * hours),
            "ContractedUnitPrice": _text(price),
            "InvoiceIssuerName": PROVIDER,
            "ListCost": _text(price * hours),
            "ListUnitPrice": _text(price),
            "PricingCategory": "Committed",
            "PricingQuantity": _text(hours),
            "PricingUnit": _MACHINE_UNIT,
            "ProviderName": PROVIDER,
            "PublisherName": PROVIDER,
            "ResourceId": _commitment_id(time),
            "ResourceName": machine.node,
            "ResourceType": name,
            "ServiceCategory": "Compute",
            "ServiceName": "GPU work pool",
            "ServiceProviderName": PROVIDER,
            "ServiceSubcategory": "Virtual Machines",
            "SkuId": f"{name}/{machine.capacity_type}",
            "SkuMeter": "Machine time",
            "SkuPriceDetails": json.dumps(
                {"GpuCount": machine.gpus, "x_GpuModel": machine.gpu_type}
            ),
            "SkuPriceId": f"{name}/{machine.capacity_type}@{time.unit_micro_usd}",
            "Tags": json.dumps({}),
            "x_PriceAsOf": None if machine.price_as_of is None else _moment(machine.price_as_of),
            "x_PriceSource": machine.price_source,
        }
    )


def _commitment(time: CommittedTime, exact_micro_usd: Exact) -> FocusRow:
    """The columns of a row about the reserved machine of which it is this much."""
    return {
        "CommitmentDiscountCategory": "Usage",
        "CommitmentDiscountId": _commitment_id(time),
        "CommitmentDiscountName": time.interval.node,
        "CommitmentDiscountQuantity": _text(_rounded(time.hours(exact_micro_usd))),
        "CommitmentDiscountStatus": None,
        "CommitmentDiscountType": "Reserved machine",
        "CommitmentDiscountUnit": _MACHINE_UNIT,
    }


def _commitment_id(time: CommittedTime) -> str:
    machine = time.interval
    return machine.instance_id or f"{machine.host}/{machine.node}"


def _row(charge: Charge) -> FocusRow:
    """The row without what it costs."""
    row = _charge_row(charge)
    if charge.commitment is None:
        return row
    return (
        row
        | _commitment(charge.commitment, charge.exact_micro_usd)
        | {
            "CommitmentDiscountStatus": "Used",
            "PricingCategory": "Committed",
        }
    )


def _charge_row(charge: Charge) -> FocusRow:
    run, attempt = charge.run, charge.attempt
    month = billing_period(charge.period.start)
    quantity = _rounded(charge.hours)
    price = Decimal(charge.unit_micro_usd) / MICRO_USD_PER_USD
    # The list cost is the product to the last digit, as the format demands; what is billed is
    # whole micro-dollars.
    listed = _text(price * quantity)
    unit = _UNITS[charge.resource]
    sku = _sku(charge)
    return {
        "AvailabilityZone": attempt.zone,
        "BilledCost": None,
        "BillingAccountId": run.pool,
        "BillingAccountName": f"Work pool {run.pool}",
        "BillingCurrency": "USD",
        "BillingPeriodEnd": _moment(month.end),
        "BillingPeriodStart": _moment(month.start),
        "ChargeCategory": "Usage",
        "ChargeClass": None,
        "ChargeDescription": f"{unit} of attempt {attempt.number} of run {run.name}",
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodEnd": _end(charge.period),
        "ChargePeriodStart": _moment(charge.period.start),
        **dict.fromkeys(_COMMITMENT_COLUMNS),
        "ConsumedQuantity": _text(quantity),
        "ConsumedUnit": unit,
        "ContractedCost": listed,
        "ContractedUnitPrice": _text(price),
        "EffectiveCost": None,
        # The provider of the machine is not in the ledger's attempts; the format allows that.
        "HostProviderName": None,
        "InvoiceId": None,
        "InvoiceIssuerName": PROVIDER,
        "ListCost": listed,
        "ListUnitPrice": _text(price),
        "PricingCategory": _PRICING_CATEGORIES.get(attempt.capacity_type, "Other"),
        "PricingQuantity": _text(quantity),
        "PricingUnit": unit,
        "ProviderName": PROVIDER,
        "PublisherName": PROVIDER,
        "ResourceId": f"{attempt.attempt_id}/{charge.resource.value}",
        "ResourceName": attempt.node if attempt.is_placed else None,
        "ResourceType": attempt.gpu_type or charge.resource.value,
        "ServiceCategory": "Compute",
        "ServiceName": "GPU work pool",
        "ServiceProviderName": PROVIDER,
        "ServiceSubcategory": "Virtual Machines",
        "SkuId": sku,
        "SkuMeter": f"{charge.resource.value} time",
        "SkuPriceDetails": _details(charge),
        "SkuPriceId": f"{sku}@{charge.unit_micro_usd}",
        "SubAccountId": run.team,
        "SubAccountName": run.team,
        "Tags": _tags(charge),
        "x_AttemptNumber": str(attempt.number),
        "x_FlowRunId": run.flow_run_id,
        "x_PriceAsOf": None if charge.rates.as_of is None else _moment(charge.rates.as_of),
        "x_PriceSource": charge.rates.source or None,
    }


def _sku(charge: Charge) -> str:
    attempt = charge.attempt
    of = attempt.gpu_type if charge.resource is Resource.GPU else charge.resource.value.lower()
    return f"{of}/{attempt.capacity_type}"


def _details(charge: Charge) -> str:
    """The details of what is priced.

    GpuCount counts whole GPUs. A part of one is a key of our own.
    """
    gpus = charge.attempt.gpus
    if charge.resource is not Resource.GPU:
        return json.dumps({"x_Resource": charge.resource.value})
    if gpus.denominator == 1:
        return json.dumps({"GpuCount": gpus.numerator, "x_GpuModel": charge.attempt.gpu_type})
    return json.dumps({"x_GpuModel": charge.attempt.gpu_type, "x_GpuPart": str(gpus)})


def _tags(charge: Charge) -> str:
    run = charge.run
    known = {
        "team": run.team,
        "project": run.project,
        "user": run.user,
        "flow": run.flow_name,
        "deployment": run.deployment,
        "experiment": run.experiment,
        "model": run.model,
        "workload_type": run.workload_type,
        "flow_run_id": run.flow_run_id,
        "attempt": str(charge.attempt.number),
    }
    return json.dumps({name: value for name, value in known.items() if value is not None})


def _rounded(amount: Exact) -> Decimal:
    return Decimal(round_half_up(Fraction(amount) * 10**_QUANTITY_DIGITS)).scaleb(-_QUANTITY_DIGITS)


def _text(amount: Decimal) -> str:
    """The number without an exponent, and with a point: readers take `3` for an integer."""
    plain = f"{amount:f}"
    if "." not in plain:
        return f"{plain}.0"
    whole, _, part = plain.partition(".")
    return f"{whole}.{part.rstrip('0') or '0'}"


def _moment(moment: datetime) -> str:
    """As FOCUS writes it: whole seconds in UTC, rounded down, so that periods meet."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _end(period: Window) -> str:
    """The end of a period that is not before its start where both are in one second."""
    start, end = (moment.replace(microsecond=0) for moment in (period.start, period.end))
    return _moment(max(end, start + timedelta(seconds=1)))
