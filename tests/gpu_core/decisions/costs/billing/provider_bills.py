"""Bills as AWS, Google and Azure export them, each line with the step to which it belongs.

A provider has its own columns, units, moments and ids; what a line is for is known as it is made.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from gpu_core.decisions.costs.billing.bill_lines import Problem
from gpu_core.decisions.costs.billing.reconciliation import Step
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from tests.gpu_core.adapters.ledger.test_capacity import make_interval

Row = dict[str, str | None]
DAY = datetime(2026, 3, 4, tzinfo=UTC)
_HOUR = timedelta(hours=1)
_ON_DEMAND_USD = "32.7726"
_COVERED_USD = "19.22"


@dataclass
class ProviderBill:
    """The rows of a bill with the truth of each, and the ledger's machines."""

    rows: list[Row] = field(default_factory=list)
    truth: list[Step | Problem | None] = field(default_factory=list)
    intervals: list[CapacityInterval] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        """All columns of the rows."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def add(self, row: Row, truth: Step | Problem | None) -> None:
        """A line more."""
        self.rows.append(row)
        self.truth.append(truth)

    def lay_out(self, rng: random.Random) -> None:
        """Order the lines as a provider does: by nothing."""
        order = list(range(len(self.rows)))
        rng.shuffle(order)
        # A line that repeats another follows it.
        order.sort(key=lambda place: self.truth[place] is Problem.DUPLICATE)
        self.rows = [self.rows[place] for place in order]
        self.truth = [self.truth[place] for place in order]


def usage(cost: str, start: datetime, end: datetime, **fields: str | None) -> Row:
    """A line of usage with the columns that all providers have."""
    return {
        "BilledCost": cost, "EffectiveCost": cost, "ListCost": cost, "ContractedCost": cost,
        "BillingCurrency": "USD", "ChargeCategory": "Usage", "ChargeClass": None,
        "ChargePeriodStart": start.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "ChargePeriodEnd": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "CommitmentDiscountId": None, "CommitmentDiscountStatus": None,
        "ResourceId": None, "ServiceCategory": "Compute",
    } | fields  # fmt: skip


def aws_bill(rng: random.Random) -> ProviderBill:
    """Hourly lines, an hour split over commitment and on demand, reservations of capacity, fees."""
    bill = ProviderBill()
    for number, is_ours, hours in _machines(rng):
        name = f"i-{number:017x}"
        if is_ours:
            bill.intervals.append(_interval(number, f"aws:///us-east-1a/{name}", hours))
        for hour in hours:
            for row in _aws_hour(rng, rng.choice([name, _arn(f"instance/{name}")]), hour):
                bill.add(row, None if is_ours else Step.OTHER_NODES)
        if rng.random() < 0.5:
            row = _aws(
                "0.42", hours[0], "USE1-EBSOptimized:p4d.24xlarge", ResourceId=name,
                ConsumedQuantity="1", ConsumedUnit="Hrs",
            )  # fmt: skip
            bill.add(row, None if is_ours else Step.OTHER_NODES)
    for hour in _hours(rng):
        bill.add(*rng.choice(list(_aws_others(hour))))
    return bill


def _aws_hour(rng: random.Random, resource: str, hour: datetime) -> Iterator[Row]:
    covered = rng.choice([Fraction(0), Fraction(1), Fraction(rng.randint(1, 99), 100)])
    tags = json.dumps({"user_team": rng.choice(["vision", 'größe, "x"', "a\nb"])})
    if covered < 1:
        cost = _usd(Fraction(_ON_DEMAND_USD) * (1 - covered))
        yield _aws(
            cost, hour, "USE1-BoxUsage:p4d.24xlarge", ResourceId=resource, Tags=tags,
            ConsumedQuantity=_usd(1 - covered), ConsumedUnit="Hrs",
        )  # fmt: skip
    if covered:
        before = _usd(Fraction(_ON_DEMAND_USD) * covered)
        yield _aws(
            "0", hour, "USE1-BoxUsage:p4d.24xlarge", ResourceId=resource, Tags=tags,
            EffectiveCost=_usd(Fraction(_COVERED_USD) * covered), ContractedCost=before,
            CommitmentDiscountId=_arn("savingsplan/1"), CommitmentDiscountStatus="Used",
            ConsumedQuantity=_usd(covered), ConsumedUnit="Hrs",
        )  # fmt: skip


def _aws_others(hour: datetime) -> Iterator[tuple[Row, Step | Problem]]:
    month = {"ChargePeriodStart": "2026-03-01T00:00:00Z", "ChargePeriodEnd": "2026-04-01T00:00:00Z"}
    plan = {"CommitmentDiscountId": _arn("savingsplan/1")}
    yield _aws("8760", hour, None, ChargeCategory="Purchase", **plan, **month), Step.COMMITMENT
    unused = {"CommitmentDiscountStatus": "Unused", "EffectiveCost": "3.5"}
    yield _aws("0", hour, None, **plan, **unused), Step.COMMITMENT
    block = {"CapacityReservationId": _arn("capacity-reservation/cr-1")}
    idle = {"CapacityReservationStatus": "Unused", "ConsumedQuantity": "1", "ConsumedUnit": "Hrs"}
    yield (
        _aws(_ON_DEMAND_USD, hour, "USE1-UnusedBox:p4d.24xlarge", **block, **idle,
             ResourceId=_arn("capacity-reservation/cr-1")),
        Step.COMMITMENT,
    )  # fmt: skip
    upfront = {"ChargeCategory": "Purchase", "ChargeDescription": "Capacity Block upfront fee"}
    yield _aws("4711.5", hour, "USE1-CapacityBlock:p5", **upfront, **block), Step.COMMITMENT
    yield (
        _aws("0.1", hour, "AmazonEKS-Hours:perCluster", ResourceId=_arn("cluster/gpus", "eks"),
             ConsumedQuantity="1", ConsumedUnit="Hours"),
        Step.OTHER_SERVICE,
    )  # fmt: skip
    yield _aws("-12.5", hour, "USE1-BoxUsage:p4d.24xlarge", ResourceId="i-9"), Step.CORRECTION
    yield _aws("-200", hour, None, ChargeCategory="Credit", **month), Step.CREDIT
    yield _aws("19.1", hour, None, ChargeCategory="Tax", ServiceCategory=None), Step.TAX
    yield (
        _aws("0.9", hour, "USE1-DataTransfer-Regional-Bytes", ConsumedUnit="GB",
             ConsumedQuantity="90", ResourceId="i-00000000000000001"),
        Step.DATA_TRANSFER,
    )  # fmt: skip
    yield _aws("4", hour, "USE1-BoxUsage:p4d", BillingCurrency="CNY"), Problem.CURRENCY


def _aws(cost: str, hour: datetime, usage_type: str | None, **fields: str | None) -> Row:
    return usage(cost, hour, hour + _HOUR, x_UsageType=usage_type, x_Operation=None) | fields


def _arn(resource: str, service: str = "ec2") -> str:
    return f"arn:aws:{service}:us-east-1:123456789012:{resource}"


def google_bill(rng: random.Random) -> ProviderBill:
    """A line for cores, memory, GPUs and licenses of a machine each, and commitments by name."""
    bill = ProviderBill()
    for number, is_ours, hours in _machines(rng):
        name = f"gke-gpu-{number}"
        resource = f"//compute.googleapis.com/projects/p/zones/us-central1-a/instances/{name}"
        if is_ours:
            bill.intervals.append(_interval(number, f"gce://p/us-central1-a/{name}", hours))
        for hour in hours:
            for cost, meter, quantity, unit in (
                ("5.1", "A2 Instance Core running in Iowa", 96 * 3600, "seconds"),
                ("2.3", "A2 Instance Ram running in Iowa", 1360 * 2**30 * 3600, "byte-seconds"),
                ("23.47", "Nvidia Tesla A100 GPU running in Iowa", 8 * 3600, "seconds"),
                ("0.4", "Licensing Fee for Deep Learning VM (GPU cost)", 8 * 3600, "seconds"),
            ):
                row = _google(
                    cost, hour, meter, ResourceId=resource,
                    ConsumedQuantity=str(quantity), ConsumedUnit=unit,
                )  # fmt: skip
                bill.add(row, None if is_ours else Step.OTHER_NODES)
    for hour in _hours(rng):
        bill.add(*rng.choice(list(_google_others(hour))))
    return bill


def _google_others(hour: datetime) -> Iterator[tuple[Row, Step | Problem]]:
    disk = "//compute.googleapis.com/projects/p/zones/us-central1-a/disks/gke-gpu-0"
    yield (
        _google("0.1", hour, "SSD backed PD Capacity", ResourceId=disk,
                ConsumedQuantity="1", ConsumedUnit="gibibyte hour"),
        Step.OTHER_SERVICE,
    )  # fmt: skip
    commitment = "Commitment v1: Nvidia A100 GPU in Iowa for 1 Year"
    yield (
        _google("16.2", hour, commitment, ConsumedQuantity="3600", ConsumedUnit="seconds"),
        Step.COMMITMENT,
    )
    credit = {"ChargeCategory": "Credit", "ChargeDescription": "Committed use discount: GPU"}
    yield _google("-9.6", hour, "Nvidia Tesla A100 GPU", **credit), Step.CREDIT
    yield _google("0.02", hour, "Network Internet Egress from Iowa to EMEA"), Step.DATA_TRANSFER
    yield _google("-0.000001", hour, "Rounding error", ChargeCategory="Adjustment"), Step.CORRECTION
    yield _google("3.1", hour, "Tax", ChargeCategory="Tax", ServiceCategory=None), Step.TAX


def _google(cost: str, hour: datetime, meter: str, **fields: str | None) -> Row:
    end = hour + _HOUR
    moments = {
        "ChargePeriodStart": hour.strftime("%Y-%m-%d %H:%M:%S UTC"),
        "ChargePeriodEnd": end.strftime("%Y-%m-%d %H:%M:%S.000000 UTC"),
    }
    return usage(cost, hour, end, SkuMeter=meter, ChargeDescription=meter) | moments | fields


def azure_bill(rng: random.Random) -> ProviderBill:
    """Daily lines, ids in two spellings, prices by 100 hours, refunds as purchases below zero."""
    bill = ProviderBill()
    group = "/subscriptions/5/resourceGroups/Gpu/providers/Microsoft.Compute"
    for number, is_ours, hours in _machines(rng):
        resource = f"{group}/virtualMachines/gpu-{number}"
        if is_ours:
            bill.intervals.append(_interval(number, f"azure://{resource}", hours))
        row = _azure(
            _usd(Fraction(_ON_DEMAND_USD) * len(hours)),
            ResourceId=rng.choice([resource, resource.lower()]),
            ConsumedQuantity=str(len(hours)), ConsumedUnit="Hours", PricingUnit="100 Hours",
        )  # fmt: skip
        bill.add(row, None if is_ours else Step.OTHER_NODES)
    for _ in _hours(rng):
        bill.add(*rng.choice(list(_azure_others(group))))
    return bill


def _azure_others(group: str) -> Iterator[tuple[Row, Step | Problem]]:
    order = {"CommitmentDiscountId": "/providers/Microsoft.Capacity/reservationOrders/7"}
    yield _azure("50000", ChargeCategory="Purchase", **order), Step.COMMITMENT
    yield _azure("-48000", ChargeCategory="Purchase", **order), Step.COMMITMENT
    unused = {"CommitmentDiscountStatus": "Unused", "EffectiveCost": "11", "ResourceId": None}
    yield _azure("0", **unused), Step.COMMITMENT
    disk = f"{group}/disks/gpu-0_OsDisk"
    yield _azure("2", ResourceId=disk, ServiceCategory="Storage"), Step.OTHER_SERVICE
    yield _azure("0.5", ChargeDescription="Bandwidth Inter-Region - Data"), Step.DATA_TRANSFER
    yield _azure("-1", ChargeCategory="Adjustment", ChargeClass="Correction"), Step.CORRECTION
    yield _azure("70", BillingCurrency="EUR"), Problem.CURRENCY
    yield _azure("1_000"), Problem.UNREADABLE
    yield _azure("١٢"), Problem.UNREADABLE


def _azure(cost: str, **fields: str | None) -> Row:
    moments = {"ChargePeriodStart": "2026-03-04T00:00Z", "ChargePeriodEnd": "2026-03-05T00:00Z"}
    return usage(cost, DAY, DAY + timedelta(days=1)) | moments | fields


PROVIDERS = {"AWS": aws_bill, "Google": google_bill, "Azure": azure_bill}


def provider_bill(provider: str, rng: random.Random) -> ProviderBill:
    """A bill of this provider, shuffled, where other lines are all different but for repeats."""
    bill = PROVIDERS[provider](rng)
    for number, row in enumerate(bill.rows):
        row["x_LineItem"] = str(number)
    for place in sorted(rng.sample(range(len(bill.rows)), min(len(bill.rows), rng.randint(0, 3)))):
        if not isinstance(bill.truth[place], Problem):
            bill.add(dict(bill.rows[place]), Problem.DUPLICATE)
    bill.lay_out(rng)
    return bill


def _machines(rng: random.Random) -> Iterator[tuple[int, bool, list[datetime]]]:
    for number in range(rng.randint(0, 3)):
        first, hours = rng.randint(0, 20), rng.randint(1, 4)
        yield number, rng.random() < 0.7, [DAY + _HOUR * (first + n) for n in range(hours)]


def _hours(rng: random.Random) -> list[datetime]:
    return [DAY + _HOUR * rng.randint(0, 23) for _ in range(rng.randint(0, 6))]


def _interval(number: int, instance_id: str, hours: list[datetime]) -> CapacityInterval:
    return make_interval(
        f"interval-{number}", instance_id=instance_id, since=hours[0], until=hours[-1] + _HOUR,
        gpus=8, micro_usd_per_hour=int(Fraction(_ON_DEMAND_USD) * 1_000_000),
    )  # fmt: skip


def _usd(amount: Fraction) -> str:
    return f"{float(amount):.10f}"
