"""A provider's bill in FOCUS as values: what each line is for, and which lines cannot be counted.

Columns and their values: FOCUS specification 1.0 to 1.2 (focus.finops.org). What a line of AWS is
for is also in its `x_UsageType` (AWS Data Exports, "FOCUS with AWS columns").
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from fractions import Fraction

from gpu_core.decisions.costs.usage.usage_cost import Window
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
_TRANSFER = re.compile(
    r"data ?transfer|bandwidth|-(in|out)-bytes|egress|ingress|\bip charge", re.IGNORECASE
)
# Ids of machines: of AWS, Google and Azure, which names a scale set and not the machine in it.
_MACHINE = re.compile(
    r"^i-[0-9a-f]+$|/instances/[^/]+$|:instance/[^/]+$|/virtualmachines/|/virtualmachinescalesets/",
    re.IGNORECASE,
)
# What else has an id like a name and is computing by the hour, such as a cluster's control plane,
# is written as an ARN, or as a path of Google that names its kind.
_NO_MACHINE = re.compile(r"^(arn:|//[a-z]+\.googleapis\.com/)", re.IGNORECASE)
# Google has a line for a machine's GPUs, such as "Nvidia Tesla A100 GPU", apart from its cores.
_GPUS = re.compile(r"\bgpus?\b", re.IGNORECASE)
# It also bills the licenses of an image by its GPUs: that is a surcharge, and no time of theirs.
_SURCHARGE = re.compile(r"\blicen[cs]", re.IGNORECASE)
# Google names a commitment, such as "Commitment v1: Nvidia A100 GPU", in the meter alone.
_COMMITMENT = re.compile(r"^commitments? ", re.IGNORECASE)
_DIGITS = re.compile(r"[-+]?[0-9]*\.?[0-9]+(e[-+]?[0-9]+)?|[-+]?[0-9]+\.", re.IGNORECASE)
# AWS bills surcharges on an instance, such as `EBSOptimized:p3.2xlarge`, by the hour as well.
_AWS_TIME = re.compile(r"(box|spot|host|dedicated|heavy)usage", re.IGNORECASE)


class LineKind(StrEnum):
    """The purpose of a line of a bill."""

    INSTANCE_TIME = "instance time"
    DATA_TRANSFER = "data transfer"
    OTHER_SERVICE = "other services"
    CREDIT = "credits"
    TAX = "taxes"
    COMMITMENT = "commitments"
    """Fees of commitments, and what of them was not used."""
    CORRECTION = "corrections and refunds"


class Problem(StrEnum):
    """The reason why a line is in no sum."""

    DUPLICATE = "is a duplicate line"
    CURRENCY = "is in another currency"
    UNREADABLE = "contains an invalid value"


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
    """Hours that the line has of the machine; 0 where it is for something else, or for a surcharge
    or a part of the machine by another unit."""
    gpu_hours: Fraction
    """The hours of the line's GPUs, each GPU's by itself, where the line is for GPUs alone."""
    billed_micro_usd: Fraction
    """The amount on the invoice."""
    effective_micro_usd: Fraction
    """With the part of commitments that was used."""
    before_commitment_micro_usd: Fraction
    """The cost without a commitment."""


@dataclass(frozen=True, slots=True)
class LineProblem:
    """A line that is not counted."""

    number: int
    problem: Problem
    detail: str
    billed: Fraction | None
    """The amount on the invoice, in `currency`; None: it cannot be read."""
    currency: str | None


def parse_bill(
    columns: Sequence[str], rows: Iterable[Mapping[str, str | None]]
) -> tuple[list[BillLine], list[LineProblem]]:
    """The lines of this bill, and those that cannot be counted.

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
            "is not a valid FOCUS bill",
            got=f"no column {listed(missing, limit=len(missing))}",
            remedy="please export the bill in FOCUS 1.0 or later, for example with AWS Data "
            "Exports",
        )
    seen: Counter[tuple[str | None, ...]] = Counter()
    lines, problems = [], []
    for number, row in enumerate(rows, start=2):
        whole = tuple(row.get(column) or None for column in columns)
        seen[whole] += 1
        if seen[whole] > 1:
            problems.append(_problem(number, row, Problem.DUPLICATE, row.get("ResourceId") or ""))
        elif row.get("BillingCurrency") != CURRENCY:
            currency = row.get("BillingCurrency") or "no currency"
            problems.append(_problem(number, row, Problem.CURRENCY, currency))
        else:
            try:
                lines.append(_line(number, row))
            except InvalidInput as error:
                problems.append(_problem(number, row, Problem.UNREADABLE, error.field))
    return lines, problems


def _problem(
    number: int, row: Mapping[str, str | None], problem: Problem, detail: str
) -> LineProblem:
    try:
        billed = _number(row, "BilledCost")
    except InvalidInput:
        billed = None
    return LineProblem(number, problem, detail, billed, row.get("BillingCurrency") or None)


def instance_key(identifier: str) -> str:
    """The machine that this id names, in any of the forms of providers and clusters.

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
    resource, hours = row.get("ResourceId"), _hours(row, period)
    words = _words(row)
    is_gpus = _GPUS.search(words) is not None and not row.get("x_UsageType")
    is_time = is_time and not _SURCHARGE.search(words)
    return BillLine(
        number=number,
        kind=kind,
        instance=instance_key(resource) if resource else None,
        period=period,
        hours=hours if is_time and not is_gpus else Fraction(0),
        gpu_hours=hours if is_time and is_gpus else Fraction(0),
        billed_micro_usd=billed,
        effective_micro_usd=effective,
        before_commitment_micro_usd=_before_commitment(row, billed),
    )


def _before_commitment(row: Mapping[str, str | None], billed: Fraction) -> Fraction:
    """The cost of a line that a commitment covers, without it. Providers leave some costs at 0."""
    if row.get("CommitmentDiscountStatus") != "Used":
        return billed
    given = (_money(row, name) for name in ("ContractedCost", "ListCost") if row.get(name))
    return next((cost for cost in given if cost > 0), billed)


def _kind(row: Mapping[str, str | None], billed: Fraction) -> LineKind:
    category = row.get("ChargeCategory")
    if category == "Tax":
        return LineKind.TAX
    if category == "Credit":
        return LineKind.CREDIT
    if _is_commitment(row):
        return LineKind.COMMITMENT
    if category == "Purchase":
        return LineKind.OTHER_SERVICE
    # Usage below zero is money that comes back, whether the line says so or not.
    if category == "Adjustment" or row.get("ChargeClass") == "Correction" or billed < 0:
        return LineKind.CORRECTION
    if row.get("ServiceCategory") == "Networking" or _TRANSFER.search(_words(row)):
        return LineKind.DATA_TRANSFER
    if row.get("ServiceCategory") == "Compute" and _is_machine(row):
        return LineKind.INSTANCE_TIME
    return LineKind.OTHER_SERVICE


def _is_commitment(row: Mapping[str, str | None]) -> bool:
    """Is this the fee of a commitment or of reserved capacity, or what of one was not used?"""
    statuses = ("CommitmentDiscountStatus", "CapacityReservationStatus")
    if any(row.get(name) == "Unused" for name in statuses):
        return True
    if row.get("ChargeCategory") == "Purchase":
        return any(row.get(name) for name in ("CommitmentDiscountId", "CapacityReservationId"))
    return not row.get("ResourceId") and bool(_COMMITMENT.match(_words(row).lstrip()))


def _is_machine(row: Mapping[str, str | None]) -> bool:
    """Is this computing for a machine? Google bills its cores and memory apart, by other units."""
    resource = (row.get("ResourceId") or "").strip()
    if _MACHINE.search(resource):
        return True
    return bool(resource) and not _NO_MACHINE.search(resource) and _unit(row) is not None


def _words(row: Mapping[str, str | None]) -> str:
    return " ".join(row.get(n) or "" for n in ("SkuMeter", "x_UsageType", "ChargeDescription"))


def _unit(row: Mapping[str, str | None]) -> Fraction | None:
    unit = row.get("ConsumedUnit") or row.get("PricingUnit") or ""
    return _HOURS.get(unit.strip().lower())


def _hours(row: Mapping[str, str | None], period: Window) -> Fraction:
    usage_type = row.get("x_UsageType")
    if usage_type and not _AWS_TIME.search(usage_type):
        return Fraction(0)
    unit = _unit(row)
    name = "ConsumedQuantity" if row.get("ConsumedQuantity") else "PricingQuantity"
    if row.get(name):
        return Fraction(0) if unit is None else _number(row, name) * unit
    return Fraction(0) if unit is None else period_hours(period)


def period_hours(period: Window) -> Fraction:
    """How long is this period?"""
    length = period.end - period.start
    return Fraction(length // timedelta(microseconds=1), 3_600_000_000)


def _money(row: Mapping[str, str | None], name: str) -> Fraction:
    return _number(row, name) * MICRO_USD_PER_USD


def _number(row: Mapping[str, str | None], name: str) -> Fraction:
    text = (row.get(name) or "").strip()
    try:
        # Decimal also takes underscores, and digits of all scripts.
        number = Decimal(text if _DIGITS.fullmatch(text) else "NaN")
    except InvalidOperation:
        number = Decimal("NaN")
    # An exponent beyond is no amount, and takes minutes to write out.
    if not number.is_finite() or abs(number.adjusted()) > _MOST_DIGITS:
        raise InvalidInput(name, "is not a number", got=row.get(name))
    return Fraction(number)


def _moment(row: Mapping[str, str | None], name: str) -> datetime:
    try:
        # BigQuery writes UTC out.
        moment = datetime.fromisoformat((row.get(name) or "").strip().replace(" UTC", "Z"))
    except ValueError:
        raise InvalidInput(name, "is not a time", got=row.get(name)) from None
    if moment.tzinfo is None:
        raise InvalidInput(name, "has no time zone", got=row.get(name))
    return moment
