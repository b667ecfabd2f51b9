"""What a bill says of runs: each with what it was charged, and what that time is billed."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.costs.billing.bill_lines import parse_bill
from gpu_core.decisions.costs.billing.reconciliation import reconcile
from gpu_core.decisions.costs.billing.run_bills import (
    AttemptBill,
    attempt_bills,
    bills_around,
    run_bills,
)
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityInterval
from gpu_core.decisions.costs.usage.usage_cost import Window, run_cost
from gpu_core.decisions.model.attempts import Attempt, EndReason, RunRecord
from gpu_core.testing.builders.attempts import at, make_attempt, make_run
from tests.gpu_core.adapters.ledger.test_capacity import make_interval
from tests.gpu_core.decisions.costs.billing.test_reconciliation import NOW, Row, line

Records = list[tuple[RunRecord, tuple[Attempt, ...]]]
OURS = make_interval(instance_id="aws:///us-east-1a/i-1", since=at(0), until=at(1))


def made(name: str, *, start: float = 0, end: float = 1, gpus: int = 1, **fields: Any) -> Attempt:
    """An attempt on GPUs of node-1 at 2 USD an hour, of eight that cost 16 USD."""
    return make_attempt(
        name,
        admitted_at=at(start),
        released_at=at(end),
        end_reason=EndReason.COMPLETED,
        gpu_ids=tuple(f"GPU-{place}" for place in range(gpus)),
        price_micro_usd_per_gpu_hour=2_000_000,
        **fields,
    )


def bills(
    rows: list[Row], attempts: list[Attempt], *intervals: CapacityInterval
) -> tuple[AttemptBill, ...]:
    lines, problems = parse_bill(list(line()), rows)
    machines = intervals or (OURS,)
    records: Records = [(make_run(each.flow_run_id), (each,)) for each in attempts]
    return attempt_bills(reconcile(lines, problems, machines, NOW), machines, records, NOW)


def test_runs_on_a_scale_set_are_billed_at_its_average() -> None:
    """Azure bills all machines of a scale set as one resource."""
    scale_set = "/subscriptions/1/x/virtualMachineScaleSets/s"
    machines = [
        make_interval(
            f"i-{number}",
            node=f"node-{number}",
            instance_id=f"azure://{scale_set}/virtualMachines/{number}",
            since=at(0),
            until=at(1),
        )
        for number in (1, 2)
    ]
    row = line(
        ResourceId=scale_set, ConsumedQuantity="2", BilledCost="40.0", EffectiveCost="40.0",
        ChargePeriodStart="2026-03-04T00:00:00Z", ChargePeriodEnd="2026-03-05T00:00:00Z",
        x_UsageType=None,
    )  # fmt: skip
    (part,) = bills([row], [made("run-1", gpus=2)], *machines)
    assert (part.charged_micro_usd, part.billed_micro_usd) == (4_000_000, 5_000_000)


@pytest.mark.parametrize(
    ("rows", "want_billed_usd"),
    [
        pytest.param([line()], 4.0, id="as in the ledger"),
        pytest.param([line(BilledCost="20.0", EffectiveCost="20.0")], 5.0, id="a dearer hour"),
        pytest.param(
            [line(ConsumedQuantity="1.5", BilledCost="24.0", EffectiveCost="24.0")], 4.0,
            id="time before and after is no run's",
        ),
        pytest.param(
            [line(BilledCost="0.0", EffectiveCost="8.0", CommitmentDiscountStatus="Used")], 2.0,
            id="covered by a commitment, at its effective cost",
        ),
        pytest.param(
            [line(), line(ChargeCategory="Tax", BilledCost="3.0")], 4.0, id="taxes are no run's"
        ),
        pytest.param([line(ResourceId="i-2")], None, id="another machine's bill"),
    ],
)  # fmt: skip
def test_two_gpus_for_an_hour_are_billed(rows: list[Row], want_billed_usd: float | None) -> None:
    found = bills(rows, [made("run-1", gpus=2)])
    got = [(part.charged_micro_usd, part.billed_micro_usd) for part in found]
    want = [] if want_billed_usd is None else [(4_000_000, int(want_billed_usd * 1_000_000))]
    assert got == want


def test_a_machine_without_a_price_says_nothing_of_runs() -> None:
    unpriced = replace(OURS, micro_usd_per_hour=None)
    assert bills([line()], [made("run-1")], unpriced) == ()


def test_a_gang_is_billed_on_each_of_its_machines() -> None:
    """Two machines, one of which is billed half as much again."""
    other = make_interval("i-2", node="node-2", instance_id="i-2", since=at(0), until=at(1))
    attempt = made("run-1", gpus=2)
    (share,) = attempt.held
    shares = tuple(
        replace(share, node=node, gpu_ids=(gpu,))
        for node, gpu in zip(("node-1", "node-2"), attempt.gpu_ids, strict=True)
    )
    rows = [line(), line(ResourceId="i-2", BilledCost="24.0", EffectiveCost="24.0")]
    found = bills(rows, [replace(attempt, shares=shares)], OURS, other)
    got = [(part.instance, part.charged_micro_usd, part.billed_micro_usd) for part in found]
    assert got == [("i-1", 2_000_000, 2_000_000), ("i-2", 2_000_000, 3_000_000)]


@pytest.mark.parametrize(
    ("end", "final_state", "want"),
    [
        pytest.param(1, "Completed", True, id="over, and all of it on the bill"),
        pytest.param(2, "Completed", False, id="an hour is not on the bill"),
        pytest.param(1, None, False, id="not over"),
    ],
)
def test_when_all_of_a_run_is_reconciled(end: float, final_state: str | None, want: bool) -> None:
    attempt = made("run-1", end=end)
    cost = run_cost(make_run("run-1", final_state=final_state), [attempt], NOW)
    assert run_bills(bills([line()], [attempt]))["run-1"].covers(cost) is want


def test_a_bill_over_the_end_of_a_month_has_a_part_in_each() -> None:
    """April begins 660 hours after the test day's noon. An hour is billed 20 USD instead of 16."""
    machine = replace(OURS, since=at(658), until=at(662))
    row = line(
        ChargePeriodStart="2026-03-31T22:00:00Z", ChargePeriodEnd="2026-04-01T02:00:00Z",
        ConsumedQuantity="4", BilledCost="80.0", EffectiveCost="80.0",
    )  # fmt: skip
    found = bills([row], [made("run-1", start=659.5, end=661)], machine)
    got = [(p.bill_start, p.bill_end, p.charged_micro_usd, p.billed_micro_usd) for p in found]
    assert got == [
        (at(658), at(660), 1_000_000, 1_250_000),
        (at(660), at(662), 2_000_000, 2_500_000),
    ]


EARLIER = AttemptBill(
    flow_run_id="run-1",
    attempt_id="run-1/1",
    instance="i-1",
    bill_start=at(0),
    bill_end=at(4),
    charged_micro_usd=8_000_000,
    billed_micro_usd=10_000_000,
)


@pytest.mark.parametrize(
    ("start", "end", "want"),
    [
        pytest.param(1, 2, [(0, 1, 2, 2.5), (2, 4, 4, 5)], id="an hour of four"),
        pytest.param(2, 9, [(0, 2, 4, 5)], id="its end and later"),
        pytest.param(-1, 2, [(2, 4, 4, 5)], id="its beginning and earlier"),
        pytest.param(0, 4, [], id="its time"),
    ],
)
def test_an_earlier_bill_keeps_what_it_says_of_the_time_around_a_later_one(
    start: float, end: float, want: list[tuple[float, ...]]
) -> None:
    """A run on one GPU for four hours is charged 8 USD, and billed 10 USD."""
    machine = replace(OURS, until=at(4))
    records = [(make_run("run-1"), (made("run-1", end=4),))]
    found = bills_around(Window(at(start), at(end)), [EARLIER], [machine], records, NOW)
    assert [
        (p.bill_start, p.bill_end, p.charged_micro_usd / 1e6, p.billed_micro_usd / 1e6)
        for p in found
    ] == [(at(first), at(last), charged, billed) for first, last, charged, billed in want]


def test_where_a_run_held_nothing_an_earlier_bill_says_nothing() -> None:
    records = [(make_run("run-1"), (made("run-1", start=1, end=2),))]
    whole = replace(OURS, until=at(4))
    assert not bills_around(Window(at(1), at(2)), [EARLIER], [whole], records, NOW)


@given(
    spans=st.lists(
        st.tuples(st.integers(0, 3_000), st.integers(1, 600), st.integers(1, 2)),
        min_size=1,
        max_size=4,
    ),
    price=st.integers(1, 10**9),
    billed=st.integers(0, 10**9),
)
def test_parts_of_a_machine_add_up_to_what_its_runs_were_charged_and_are_billed(
    spans: list[tuple[int, int, int]], price: int, billed: int
) -> None:
    """To the micro-dollar, for any times and prices; and runs are never billed beyond the machine.

    Each attempt pays an eighth of the machine for each GPU, on at most eight GPUs at once.
    """
    machine = replace(OURS, micro_usd_per_hour=8 * price)
    attempts = [
        replace(
            made(f"run-{n}", start=start / 3600, end=(start + length) / 3600, gpus=gpus),
            price_micro_usd_per_gpu_hour=price,
        )
        for n, (start, length, gpus) in enumerate(spans)
    ]
    usd = f"{billed / 1_000_000:.6f}"
    found = bills([line(BilledCost=usd, EffectiveCost=usd)], attempts, machine)
    charged = sum((Fraction(length * gpus * price, 3600) for _, length, gpus in spans), Fraction(0))
    assert abs(sum(part.charged_micro_usd for part in found) - charged) <= Fraction(1, 2)
    share = charged / (8 * price)
    assert abs(sum(part.billed_micro_usd for part in found) - billed * share) <= Fraction(1, 2)
    assert sum(part.billed_micro_usd for part in found) <= billed
