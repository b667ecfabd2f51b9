"""Generated bills whose truth is known: every dollar is where it belongs, and steps add up."""

from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.costs.billing.bill_lines import Problem, instance_key, parse_bill
from gpu_core.decisions.costs.billing.reconciliation import (
    Reconciliation,
    Step,
    reconcile,
    window_of,
)
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.attempts import at
from tests.gpu_core.adapters.ledger.test_capacity import make_interval

Row = dict[str, str | None]
NOW = at(1000)


def line(**fields: str | None) -> Row:
    """An hour of machine i-1 for 16 USD."""
    ordinary: Row = {
        "BilledCost": "16.0", "BillingCurrency": "USD", "ChargeCategory": "Usage",
        "ChargeClass": None, "ChargeDescription": "p4d.24xlarge on demand",
        "ChargePeriodStart": "2026-03-04T12:00:00Z", "ChargePeriodEnd": "2026-03-04T13:00:00Z",
        "CommitmentDiscountId": None, "CommitmentDiscountStatus": None, "ConsumedQuantity": "1",
        "ConsumedUnit": "Hrs", "ContractedCost": "16.0", "EffectiveCost": "16.0",
        "ListCost": None, "ResourceId": "i-1", "ServiceCategory": "Compute", "SkuMeter": None,
        "x_UsageType": "BoxUsage:p4d.24xlarge",
    }  # fmt: skip
    return ordinary | fields


def reconciled(rows: list[Row], *intervals: CapacityInterval) -> Reconciliation:
    lines, problems = parse_bill(list(line()), rows)
    return reconcile(lines, problems, intervals, NOW)


OURS = make_interval(instance_id="aws:///us-east-1a/i-1", since=at(0), until=at(1))


def test_a_fee_for_a_month_does_not_make_the_bill_one_of_the_month() -> None:
    """Else the machine's other hours, which are on another bill, would be missing on this one."""
    fee = line(
        ChargePeriodStart="2026-03-01T00:00:00Z", ChargePeriodEnd="2026-04-01T00:00:00Z",
        ChargeDescription="Support fee for a month", ConsumedQuantity="1", ConsumedUnit="Months",
        BilledCost="3.0", x_UsageType="Support",
    )  # fmt: skip
    lines, _ = parse_bill(list(line()), [line(), fee])
    assert window_of(lines) == Window(at(0), at(1))
    found = reconciled([line(), fee], replace(OURS, until=at(100)))
    (machine,) = found.machines
    assert (machine.hours, machine.billed_hours, machine.billed_micro_usd) == (1, 1, 19_000_000)
    assert sum(found.steps.values()) == 3_000_000


def test_lines_without_hours_still_say_which_time_a_bill_is_about() -> None:
    memory = line(ConsumedUnit="gibibyte hour", x_UsageType=None, SkuMeter="Instance Ram")
    lines, _ = parse_bill(list(line()), [memory])
    assert window_of(lines) == Window(at(0), at(1))


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({}, None, id="a machine of ours"),
        pytest.param({"ResourceId": "arn:aws:ec2:us-east-1:1:instance/i-1"}, None, id="its ARN"),
        pytest.param({"ResourceId": "i-2"}, Step.OTHER_NODES, id="another machine"),
        pytest.param(
            {"ConsumedUnit": "GB", "x_UsageType": "USE1-DataTransfer-Out-Bytes"},
            Step.DATA_TRANSFER, id="traffic of a machine of ours",
        ),
        pytest.param(
            {"ResourceId": "vol-1", "ServiceCategory": "Storage", "ConsumedUnit": "GB-Mo"},
            Step.OTHER_SERVICE, id="a disk",
        ),
        pytest.param({"ResourceId": None}, Step.OTHER_SERVICE, id="computing without a machine"),
        pytest.param({"ChargeCategory": "Tax", "ResourceId": None}, Step.TAX, id="tax"),
        pytest.param(
            {"ChargeCategory": "Credit", "BilledCost": "-5.0"}, Step.CREDIT, id="credit"
        ),
        pytest.param(
            {"ChargeCategory": "Purchase", "CommitmentDiscountId": "ri-1"}, Step.COMMITMENT,
            id="the fee of a commitment",
        ),
        pytest.param(
            {"CommitmentDiscountStatus": "Unused", "CommitmentDiscountId": "ri-1"},
            Step.COMMITMENT, id="what of it was not used",
        ),
        pytest.param(
            {"ChargeClass": "Correction", "BilledCost": "-1.0"}, Step.CORRECTION, id="correction"
        ),
        pytest.param({"BilledCost": "-1.0"}, Step.CORRECTION, id="usage below zero"),
        pytest.param(
            {"ConsumedUnit": "vCPU-Hours", "x_UsageType": "CPUCredits:t3"}, None,
            id="a surcharge on a machine of ours",
        ),
        pytest.param(
            {"ResourceId": "arn:aws:eks:us-east-1:1:cluster/i-1", "x_UsageType": "AmazonEKS-Hours"},
            Step.OTHER_SERVICE, id="a control plane, whose name is that of a machine of ours",
        ),
        pytest.param(
            {"ResourceId": "//compute.googleapis.com/projects/p/zones/z/disks/i-1",
             "ConsumedUnit": "gibibyte hour", "x_UsageType": None},
            Step.OTHER_SERVICE, id="a disk whose name is that of a machine of ours",
        ),
        pytest.param(
            {"ResourceId": "//compute.googleapis.com/projects/p/zones/z/instances/i-1",
             "ConsumedUnit": "byte-seconds", "x_UsageType": None},
            None, id="the memory of a machine of ours",
        ),
        pytest.param(
            {"ChargeDescription": "External IP Charge on a Standard VM", "ConsumedUnit": "hour"},
            Step.DATA_TRANSFER, id="its address",
        ),
        pytest.param(
            {"ChargePeriodStart": "2026-03-04 12:00:00 UTC",
             "ChargePeriodEnd": "2026-03-04 13:00:00 UTC"},
            None, id="moments as BigQuery writes them",
        ),
    ],
)  # fmt: skip
def test_what_a_line_is_for(fields: dict[str, str | None], want: Step | None) -> None:
    assert reconciled([line(**fields)], OURS).lines == {2: want}


@pytest.mark.parametrize(
    ("rows", "want"),
    [
        pytest.param([line()], {}, id="as in the ledger"),
        pytest.param([line(BilledCost="17.0")], {Step.PRICE: 1}, id="dearer"),
        pytest.param(
            [line(ConsumedQuantity="1.5", BilledCost="24.0")], {Step.TIME: 8}, id="longer"
        ),
        pytest.param(
            [line(BilledCost="0.0", CommitmentDiscountStatus="Used", EffectiveCost="10.0")],
            {Step.COMMITTED: -16}, id="covered by a commitment",
        ),
        pytest.param(
            [line(), line(BilledCost="3.0", ChargeCategory="Tax")], {Step.TAX: 3}, id="taxes"
        ),
        pytest.param(
            [line(BilledCost="0.0", CommitmentDiscountStatus="Used", ContractedCost="0",
                  EffectiveCost="10.0", ListCost="16.0")],
            {Step.COMMITTED: -16}, id="covered by a commitment, with its list price only",
        ),
        pytest.param(
            [line(), line(BilledCost="0.5", x_UsageType="EBSOptimized:p4d.24xlarge")],
            {Step.PRICE: Fraction(1, 2)}, id="a surcharge by the hour is no second hour",
        ),
        pytest.param(
            [line(ResourceId="i-2", BilledCost="5.0")],
            {Step.NOT_BILLED: -16, Step.OTHER_NODES: 5}, id="another machine than ours",
        ),
    ],
)  # fmt: skip
def test_steps_from_the_ledger_to_the_bill(rows: list[Row], want: dict[Step, int]) -> None:
    found = reconciled(rows, OURS)
    assert found.steps == {step: usd * 1_000_000 for step, usd in want.items()}


_SCALE_SET = "/subscriptions/1/resourceGroups/g/x/virtualMachineScaleSets/aks-gpu-1-vmss"


@pytest.mark.parametrize("hours", [1, 2])
def test_machines_of_a_scale_set_are_billed_as_one_resource(hours: int) -> None:
    """So Azure bills the nodes of AKS, while each node names its own machine."""
    ours = [
        make_interval(
            f"interval-{number}",
            instance_id=f"azure://{_SCALE_SET}/virtualMachines/{number}",
            since=at(0),
            until=at(hours),
        )
        for number in range(3)
    ]
    row = line(
        ResourceId=_SCALE_SET.lower(),
        BilledCost=str(3 * 16 * hours + 1),
        ConsumedQuantity=str(3 * hours),
        ChargePeriodStart="2026-03-04T00:00:00Z",
        ChargePeriodEnd="2026-03-05T00:00:00Z",
        x_UsageType=None,
    )
    found = reconciled([row], *ours)
    assert found.lines == {2: None}
    assert found.steps == {Step.PRICE: 1_000_000}
    (machine,) = found.machines
    assert (machine.hours, machine.billed_hours) == (3 * hours, 3 * hours)


def google(meter: str, quantity: float, unit: str, cost: str) -> Row:
    """A line for one part of a machine in an hour."""
    return line(
        BilledCost=cost,
        ConsumedQuantity=str(quantity),
        ConsumedUnit=unit,
        SkuMeter=meter,
        ChargeDescription=f"{meter} running in Iowa",
        ResourceId="//compute.googleapis.com/projects/p/zones/z/instances/i-1",
        x_UsageType=None,
    )


@pytest.mark.parametrize("minutes", [60, 30, 3])
def test_cores_memory_and_gpus_of_one_machine_are_billed_in_a_line_each(minutes: int) -> None:
    ours = replace(OURS, until=at(0) + timedelta(minutes=minutes))
    seconds = 60 * minutes
    rows = [
        google("A2 Instance Core", 96 * seconds, "seconds", "6.0"),
        google("A2 Instance Ram", 680 * 2**30 * seconds, "byte-seconds", "2.0"),
        google("Nvidia Tesla A100 GPU", 8 * seconds, "seconds", "9.0"),
    ]
    found = reconciled(rows, ours)
    assert found.lines == {2: None, 3: None, 4: None}
    assert found.machines[0].billed_hours == Fraction(minutes, 60)
    dearer = Fraction(17_000_000) - Fraction(16_000_000 * minutes, 60)
    assert found.steps == {Step.PRICE: dearer}


def test_cores_alone_are_at_most_the_time_of_their_line() -> None:
    """How many of them the machine has is not known."""
    rows = [google("N1 Core", 96 * 3600, "seconds", "14.0"), google("N1 Ram", 1, "hour", "2.0")]
    assert reconciled(rows, OURS).machines[0].billed_hours == 1


def test_a_bill_without_hours_of_a_machine_says_nothing_about_time() -> None:
    found = reconciled([line(BilledCost="17.0", ConsumedUnit="byte-seconds")], OURS)
    assert found.steps == {Step.PRICE: 1_000_000}


def test_a_machine_without_a_price_is_a_step_of_its_own() -> None:
    unpriced = make_interval(instance_id="i-1", since=at(0), until=at(1), micro_usd_per_hour=None)
    assert reconciled([line()], unpriced).steps == {Step.UNPRICED: 16_000_000}


def test_a_machine_last_seen_before_the_bill_is_billed_time_that_the_ledger_lacks() -> None:
    """Its price is known; no worker watched it since."""
    unwatched = replace(OURS, since=at(-2), until=None, seen_at=at(-1))
    (machine,) = (found := reconciled([line()], unwatched)).machines
    assert (machine.hours, machine.micro_usd, machine.billed_hours) == (0, 0, 1)
    assert found.steps == {Step.TIME: 16_000_000}


@pytest.mark.parametrize(
    ("row", "want"),
    [
        pytest.param(line(), Problem.DUPLICATE, id="the same line"),
        pytest.param(line(BillingCurrency="EUR"), Problem.CURRENCY, id="euros"),
        pytest.param(line(BillingCurrency=None), Problem.CURRENCY, id="no currency"),
        pytest.param(line(BilledCost="16,0"), Problem.UNREADABLE, id="a comma"),
        pytest.param(line(BilledCost="1e999999999"), Problem.UNREADABLE, id="an endless number"),
        pytest.param(line(BilledCost="NaN"), Problem.UNREADABLE, id="no number"),
        pytest.param(line(ChargePeriodStart="4 March"), Problem.UNREADABLE, id="no moment"),
        pytest.param(
            line(ChargePeriodStart="2026-03-05T00:00:00Z"), Problem.UNREADABLE, id="ends first"
        ),
    ],
)
def test_a_line_that_cannot_be_counted_is_named(row: Row, want: Problem) -> None:
    found = reconciled([line(), row], OURS)
    assert [(p.number, p.problem) for p in found.problems] == [(3, want)]
    assert found.billed_micro_usd == 16_000_000
    assert found.steps == {}


def test_a_file_that_is_no_bill_is_refused_with_the_columns_it_lacks() -> None:
    with pytest.raises(
        InvalidInput, match=r"no column BilledCost.*Please export the bill in FOCUS"
    ):
        parse_bill(["lineItem/UnblendedCost", "EffectiveCost"], [])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("aws:///us-east-1a/i-0A", "i-0a", id="AWS"),
        pytest.param(
            "gce://project/us-central1-a/node-1",
            "//compute.googleapis.com/projects/project/zones/us-central1-a/instances/node-1",
            id="Google",
        ),
        pytest.param(
            "azure:///subscriptions/1/resourceGroups/G/x/virtualMachines/0",
            "/subscriptions/1/resourcegroups/g/x/virtualmachines/0",
            id="Azure",
        ),
    ],
)
def test_an_id_of_the_provider_is_that_of_the_node(one: str, other: str) -> None:
    assert instance_key(one) == instance_key(other)


# Generated bills


@dataclass(frozen=True)
class Bill:
    """A bill with the truth of each of its lines, and the ledger's machines."""

    rows: list[Row]
    truth: list[Step | None]
    intervals: list[CapacityInterval]


_KINDS: dict[Step, dict[str, str | None]] = {
    Step.TAX: {"ChargeCategory": "Tax", "ResourceId": None},
    Step.CREDIT: {"ChargeCategory": "Credit"},
    Step.COMMITMENT: {"ChargeCategory": "Purchase", "CommitmentDiscountId": "sp-1"},
    Step.DATA_TRANSFER: {"ConsumedUnit": "GB", "x_UsageType": "DataTransfer-Regional-Bytes"},
    Step.OTHER_SERVICE: {"ResourceId": "vol-9", "ServiceCategory": "Storage"},
    Step.CORRECTION: {"ChargeClass": "Correction"},
}
_amounts = st.decimals(0, 1000, places=4)


@st.composite
def bills(draw: st.DrawFn) -> Bill:
    """Hours of machines of ours and of others, with everything else that bills have."""
    rows, truth, intervals = [], [], []
    for machine in range(draw(st.integers(0, 3))):
        since, hours = draw(st.integers(0, 50)), draw(st.integers(1, 6))
        is_ours = draw(st.booleans())
        if is_ours:
            intervals.append(
                make_interval(
                    f"interval-{machine}",
                    instance_id=f"aws:///z/i-{machine}",
                    since=at(since) + timedelta(minutes=draw(st.integers(0, 30))),
                    until=at(since + hours),
                    micro_usd_per_hour=draw(st.none() | st.integers(1, 10**8)),
                )
            )
        for hour in range(since, since + hours):
            is_covered = draw(st.booleans())
            cost = str(draw(_amounts))
            rows.append(
                line(
                    ResourceId=f"i-{machine}",
                    BilledCost="0" if is_covered else cost,
                    CommitmentDiscountStatus="Used" if is_covered else None,
                    ContractedCost=cost,
                    EffectiveCost=cost,
                    ConsumedQuantity=str(draw(st.decimals(0, 1, places=3))),
                    ChargePeriodStart=at(hour).isoformat(),
                    ChargePeriodEnd=at(hour + 1).isoformat(),
                )
            )
            truth.append(None if is_ours else Step.OTHER_NODES)
    for number, step in enumerate(draw(st.lists(st.sampled_from(list(_KINDS)), max_size=6))):
        sign = "-" if step in (Step.CREDIT, Step.CORRECTION) else ""
        fields = _KINDS[step] | {"ChargeDescription": f"line {number}"}
        rows.append(line(**fields, BilledCost=f"{sign}{draw(_amounts)}"))
        truth.append(step)
    return Bill(rows, truth, intervals)


@given(bill=bills())
def test_every_dollar_of_a_bill_is_where_it_belongs(bill: Bill) -> None:
    lines, problems = parse_bill(list(line()), bill.rows)
    found = reconcile(lines, problems, bill.intervals, NOW)
    assert found.problems == ()
    assert list(found.lines.values()) == bill.truth
    billed = sum(Fraction(str(row["BilledCost"])) for row in bill.rows) * 1_000_000
    assert found.billed_micro_usd == billed
    assert found.ledger_micro_usd + sum(found.steps.values()) == billed
    window = window_of(lines)
    if window is None:
        assert found.machines == ()
        return
    # Lines without hours do not count for the time of the bill.
    ours = sum(
        Fraction(
            max(timedelta(), min(i.until, window.end) - max(i.since, window.start))
            // timedelta(microseconds=1),
            3_600_000_000,
        )
        * (i.micro_usd_per_hour or 0)
        for i in bill.intervals
        if i.until is not None
    )
    assert found.ledger_micro_usd == ours


@given(bill=bills(), data=st.data())
def test_lines_that_are_repeated_change_no_sum(bill: Bill, data: st.DataObject) -> None:
    again = data.draw(st.lists(st.sampled_from(bill.rows), max_size=3)) if bill.rows else []
    once = reconcile(*parse_bill(list(line()), bill.rows), bill.intervals, NOW)
    twice = reconcile(*parse_bill(list(line()), bill.rows + again), bill.intervals, NOW)
    assert (twice.billed_micro_usd, twice.steps) == (once.billed_micro_usd, once.steps)
    assert [p.problem for p in twice.problems] == [Problem.DUPLICATE] * len(again)
