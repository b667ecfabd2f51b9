"""Bills as three providers export them: each line is where it belongs, and no dollar is lost."""

import random
from datetime import timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.costs.billing.bill_lines import Problem, parse_bill
from gpu_core.decisions.costs.billing.reconciliation import Reconciliation, Step, reconcile
from tests.gpu_core.decisions.costs.billing.provider_bills import (
    DAY,
    PROVIDERS,
    ProviderBill,
    provider_bill,
)


def reconciled(bill: ProviderBill) -> Reconciliation:
    lines, problems = parse_bill(bill.columns or list(provider_columns()), bill.rows)
    return reconcile(lines, problems, bill.intervals, DAY + timedelta(days=2))


def provider_columns() -> list[str]:
    """The columns of a bill without lines."""
    return [
        "BilledCost", "BillingCurrency", "ChargeCategory", "ChargePeriodEnd", "ChargePeriodStart",
        "EffectiveCost", "ResourceId", "ServiceCategory",
    ]  # fmt: skip


@pytest.mark.parametrize("provider", PROVIDERS)
@given(seed=st.integers(0, 2**32))
def test_each_line_of_a_providers_bill_is_where_it_belongs(provider: str, seed: int) -> None:
    bill = provider_bill(provider, random.Random(seed))
    found = reconciled(bill)
    problems = {each.number: each.problem for each in found.problems}
    got = [problems.get(n, found.lines.get(n)) for n in range(2, len(bill.rows) + 2)]
    assert got == bill.truth


@pytest.mark.parametrize("provider", PROVIDERS)
@given(seed=st.integers(0, 2**32))
def test_no_dollar_of_a_providers_bill_is_lost(provider: str, seed: int) -> None:
    """What is in no sum has its amount, unless that cannot be read; hours are not doubled."""
    bill = provider_bill(provider, random.Random(seed))
    found = reconciled(bill)
    pairs = list(zip(bill.rows, bill.truth, strict=True))
    counted = [r for r, truth in pairs if not isinstance(truth, Problem)]
    assert found.billed_micro_usd == sum(Fraction(r["BilledCost"] or "") for r in counted) * 10**6
    assert found.ledger_micro_usd + sum(found.steps.values()) == found.billed_micro_usd
    want = [
        (None if t is Problem.UNREADABLE else Fraction(r["BilledCost"] or ""), r["BillingCurrency"])
        for r, t in pairs
        if isinstance(t, Problem)
    ]
    assert [(each.billed, each.currency) for each in found.problems] == want
    for machine in found.machines:
        assert machine.hours == pytest.approx(machine.billed_hours)
    assert abs(found.steps.get(Step.TIME, 0)) < 1
