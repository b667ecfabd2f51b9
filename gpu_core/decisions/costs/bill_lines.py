"""A provider's bill in FOCUS as values: what each line is for, and which lines cannot be counted.

Columns and their values: FOCUS specification 1.0 to 1.2 (focus.finops.org). What a line of AWS is
for is also in its `x_UsageType` (AWS Data Exports, "FOCUS with AWS columns").
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from fractions import Fraction

from gpu_core.decisions.costs.usage_cost import Window
from gpu_core.decisions.model.errors import InvalidInput, listed
from gpu_core.decisions.model.units import MICRO_USD_PER_USD

CURRENCY = "USD"
_MOST_DIGITS = 30
_NEEDED = (
    "BilledCost", "BillingCurrency", "ChargeCategory", "ChargePeriodEnd", "ChargePeriodStart",
    "EffectiveCost", "ResourceId", "ServiceCategory",
)  # fmt: skip
_HOURS: Mapping[str, Fraction] = (
    dict.fromkeys(("hrs", "hr", "hours", "hour"), Fraction(1))
    | dict.fromkeys(("minutes", "minute"), Fraction(1, 60))
    | dict.fromkeys(("seconds", "second", "secs"), Fraction(1, 3600))
)
_TRANSFER = re.compile(r"data ?transfer|bandwidth|-(in|out)-bytes|egress|ingress", re.IGNORECASE)


class LineKind(StrEnum):
    """What a line of a bill is for."""

    INSTANCE_TIME = "instance time"
    DATA_TRANSFER = "data transfer"
    OTHER_SERVICE = "other services"
    CREDIT = "credits"
    TAX = "taxes"
    COMMITMENT = "commitments"
    """Fees of commitments, and what of them was not used."""
    CORRECTION = "corrections and refunds"


class Problem(StrEnum):
    """Why a line is in no sum."""

    DUPLICATE = "is the same line again"
    CURRENCY = "is in another currency"
    UNREADABLE = "has a value that cannot be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class BillLine:
    """One line of a bill. Money is exact micro-USD."""

    number: int
    """Its line in the file; the head is line 1."""
    kind: LineKind
    instance: str | None
    """The machine that it names, as `instance_key` has it."""
    period: Window
    hours: Fraction
    """Hours of the machine; 0 where the line is for something else."""
    billed_micro_usd: Fraction
    """What the invoice has."""
    effective_micro_usd: Fraction
    """With the part of commitments that was used."""
    before_commitment_micro_usd: Fraction
    """What it would be without a commitment."""


@dataclass(frozen=True, slots=True)
class LineProblem:
    """A line that is not counted."""

    number: int
    problem: Problem
    detail: str


def parse_bill(
    columns: Sequence[str], rows: Iterable[Mapping[str, str | None]]
) -> tuple[list[BillLine], list[LineProblem]]:
    """What is on this bill, and which lines cannot be counted?

    Args:
        columns: The columns of the file.
        rows: Its lines as text; empty and None are no value.

    Raises:
        InvalidInput: It has not the columns of FOCUS.
    """
    missing = sorted(set(_NEEDED) - set(columns))
    if missing:
        raise InvalidInput(
            "file",
            "is no bill in FOCUS",
            got=f"no column {listed(missing, limit=len(missing))}",
            remedy="export the bill in FOCUS 1.0 or newer, such as with AWS Data Exports",
        )
    seen: Counter[tuple[str | None, ...]] = Counter()
    lines, problems = [], []
    for number, row in enumerate(rows, start=2):
        whole = tuple(row.get(column) or None for column in columns)
        seen[whole] += 1
        if seen[whole] > 1:
            problems.append(LineProblem(number, Problem.DUPLICATE, row.get("ResourceId") or ""))
        elif row.get("BillingCurrency") != CURRENCY:
            currency = row.get("BillingCurrency") or "no currency"
            problems.append(LineProblem(number, Problem.CURRENCY, currency))
        else:
            try:
                lines.append(_line(number, row))
            except InvalidInput as error:
                problems.append(LineProblem(number, Problem.UNREADABLE, error.field))
    return lines, problems


def instance_key(identifier: str) -> str:
    """Which machine does this id name, in any of the forms of providers and clusters?

    >>> instance_key("aws:///us-east-1a/i-0abc")
    'i-0abc'
    >>> instance_key("arn:aws:ec2:us-east-1:1:instance/i-0abc")
    'i-0abc'
    """
    lower = identifier.strip().lower()
    # The last part of an Azure scale set's machine is only its number.
    start = lower.find("/subscriptions/")
    return lower[start:] if start >= 0 else lower.rstrip("/").rpartition("/")[2]


def _line(number: int, row: Mapping[str, str | None]) -> BillLine:
    billed, effective = _money(row, "BilledCost"), _money(row, "EffectiveCost")
    start, end = _moment(row, "ChargePeriodStart"), _moment(row, "ChargePeriodEnd")
    if end < start:
        raise InvalidInput("ChargePeriodEnd", "is before its start")
    kind, period = _kind(row, billed), Window(start, end)
    is_time = kind is LineKind.INSTANCE_TIME
    is_covered = row.get("CommitmentDiscountStatus") == "Used" and bool(row.get("ContractedCost"))
    resource = row.get("ResourceId")
    return BillLine(
        number=number,
        kind=kind,
        instance=instance_key(resource) if resource else None,
        period=period,
        hours=_hours(row, period) if is_time else Fraction(0),
        billed_micro_usd=billed,
        effective_micro_usd=effective,
        before_commitment_micro_usd=_money(row, "ContractedCost") if is_covered else billed,
    )


def _kind(row: Mapping[str, str | None], billed: Fraction) -> LineKind:
    category = row.get("ChargeCategory")
    if category == "Tax":
        return LineKind.TAX
    if category == "Credit":
        return LineKind.CREDIT
    has_commitment = bool(row.get("CommitmentDiscountId"))
    if category == "Purchase" or row.get("CommitmentDiscountStatus") == "Unused":
        return LineKind.COMMITMENT if has_commitment else LineKind.OTHER_SERVICE
    # Usage below zero is money that comes back, whether the line says so or not.
    if category == "Adjustment" or row.get("ChargeClass") == "Correction" or billed < 0:
        return LineKind.CORRECTION
    words = " ".join(row.get(n) or "" for n in ("SkuMeter", "x_UsageType", "ChargeDescription"))
    if row.get("ServiceCategory") == "Networking" or _TRANSFER.search(words):
        return LineKind.DATA_TRANSFER
    is_machine = row.get("ServiceCategory") == "Compute" and bool(row.get("ResourceId"))
    return LineKind.INSTANCE_TIME if is_machine and _unit(row) else LineKind.OTHER_SERVICE


def _unit(row: Mapping[str, str | None]) -> Fraction | None:
    unit = row.get("ConsumedUnit") or row.get("PricingUnit") or ""
    return _HOURS.get(unit.strip().lower())


def _hours(row: Mapping[str, str | None], period: Window) -> Fraction:
    quantity = row.get("ConsumedQuantity") or row.get("PricingQuantity")
    unit = _unit(row)
    if quantity and unit is not None:
        name = "ConsumedQuantity" if row.get("ConsumedQuantity") else "PricingQuantity"
        return _number(row, name) * unit
    length = period.end - period.start
    return Fraction(length.days * 86_400 + length.seconds, 3600)


def _money(row: Mapping[str, str | None], name: str) -> Fraction:
    return _number(row, name) * MICRO_USD_PER_USD


def _number(row: Mapping[str, str | None], name: str) -> Fraction:
    try:
        number = Decimal((row.get(name) or "").strip())
    except InvalidOperation:
        number = Decimal("NaN")
    # An exponent beyond is no amount, and takes minutes to write out.
    if not number.is_finite() or abs(number.adjusted()) > _MOST_DIGITS:
        raise InvalidInput(name, "is not a number", got=row.get(name))
    return Fraction(number)


def _moment(row: Mapping[str, str | None], name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(row.get(name) or "")
    except ValueError:
        raise InvalidInput(name, "is not a time", got=row.get(name)) from None
    if moment.tzinfo is None:
        raise InvalidInput(name, "has no time zone", got=row.get(name))
    return moment
