"""Budgets: when periods begin, who is refused, and that limits hold."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gpu_core.decisions.model.cluster import PastUsage
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import input_errors
from gpu_core.decisions.policy.budgets import (
    BudgetPolicy,
    budget_contradictions,
    period_end,
    period_start,
)
from gpu_core.decisions.quota.budgets import Budgets
from gpu_core.testing.builders.workloads import make_policy, make_workload

USD = 1_000_000
# Days of several of these have no midnight, or two.
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/Havana",
    "America/Sao_Paulo",
    "Africa/Cairo",
    "Asia/Beirut",
    "Pacific/Apia",
    "Asia/Kathmandu",
)
HOUR_S = 3600


def make_budget(name="vision-month", **changes):
    """A hard budget of $400 per month for team vision."""
    values = {"name": name, "scope": "team", "of": "vision", "period": "month"}
    limit = {} if "gpu_hours" in changes else {"usd": 400}
    return BudgetPolicy.model_validate(values | limit | changes)


def make_budgets(*policy, usd=0, gpu_hours=0):
    """Budgets of which each has spent so much."""
    return Budgets(
        policy,
        PastUsage(
            micro_usd_by_budget={b.name: round(usd * USD) for b in policy},
            gpu_s_by_budget={b.name: gpu_hours * HOUR_S for b in policy},
        ),
    )


@pytest.mark.parametrize(
    ("budget", "spent", "price_usd", "hours", "want"),
    [
        pytest.param({}, {"usd": 380}, 2, 2.5, None, id="exactly at the limit"),
        pytest.param(
            {},
            {"usd": 380},
            2,
            4,
            "Over budget 'vision-month': $412.00 of $400.00 per month ("
            "$380.00 spent, $0.00 committed, $32.00 for this run)",
            id="over it",
        ),
        pytest.param({"mode": "soft"}, {"usd": 380}, 2, 4, None, id="a soft budget only warns"),
        pytest.param({"of": "speech"}, {"usd": 500}, 2, 4, None, id="another team's budget"),
        pytest.param({}, {"usd": 392}, 2, None, None, id="unknown run time, an hour is left"),
        pytest.param(
            {"assumed_duration": "3h"},
            {"usd": 392},
            2,
            None,
            "Over budget 'vision-month': $416.00 of $400.00 per month ($392.00 spent, $0.00 "
            "committed, $24.00 for this run, assuming a duration of 3h 00m because the "
            "duration is unknown)",
            id="unknown run time, less than its assumed duration is left",
        ),
        pytest.param(
            {},
            {"usd": 400},
            2,
            None,
            "Over budget 'vision-month': $408.00 of $400.00 per month ($400.00 spent, $0.00 "
            "committed, $8.00 for this run, assuming a duration of 1h 00m because the "
            "duration is unknown)",
            id="unknown run time, nothing is left",
        ),
        pytest.param(
            {},
            {},
            None,
            1,
            "Budget 'vision-month' is in USD, but no price is available for these GPUs",
            id="no price is no guess",
        ),
        pytest.param(
            {"gpu_hours": 100}, {"gpu_hours": 96}, None, 1, None, id="GPU-hours need none"
        ),
        pytest.param(
            {"gpu_hours": 100, "period": "week", "scope": "pool", "of": None},
            {"gpu_hours": 97},
            None,
            1,
            "Over budget 'vision-month': 101.0 GPU-hours of 100.0 GPU-hours per week ("
            "97.0 GPU-hours spent, 0.0 GPU-hours committed, 4.0 GPU-hours for this run)",
            id="the pool's GPU-hours",
        ),
        pytest.param(
            {"scope": "user", "of": "alice"},
            {"usd": 400},
            2,
            1,
            "Over budget 'vision-month': $408.00 of $400.00 per month ("
            "$400.00 spent, $0.00 committed, $8.00 for this run)",
            id="the user's",
        ),
        pytest.param(
            {"scope": "project", "of": "cats"},
            {"usd": 400},
            2,
            1,
            "Over budget 'vision-month': $408.00 of $400.00 per month ("
            "$400.00 spent, $0.00 committed, $8.00 for this run)",
            id="the project's",
        ),
    ],
)
def test_refusal(budget, spent, price_usd, hours, want):
    """Four GPUs of alice, team vision, project cats."""
    budgets = make_budgets(make_budget(**budget), **spent)
    workload = make_workload(team="vision", user="alice", project="cats")
    price = None if price_usd is None else price_usd * USD
    refusal = budgets.refusal(workload, 4, price, None if hours is None else hours * HOUR_S)
    assert (refusal and refusal.summary) == want


def test_what_is_admitted_counts_at_once():
    """Three runs of $150 in one cycle: the third is over $400."""
    budgets = make_budgets(make_budget())
    workload = make_workload(team="vision")
    run = (workload, 1, 150 * USD, HOUR_S)
    assert budgets.refusal(*run) is None
    budgets.commit(*run)
    assert budgets.refusal(*run) is None
    budgets.commit(*run)
    refusal = budgets.refusal(*run)
    assert (refusal.committed, refusal.total, refusal.is_permanent) == (300 * USD, 450 * USD, False)


@given(
    spent_cents=st.integers(0, 40_000),
    hours=st.lists(st.none() | st.floats(0.1, 9), max_size=40),
    gpus=st.integers(1, 8),
)
def test_a_hard_budget_is_never_committed_beyond_its_limit(spent_cents, hours, gpus):
    """Whatever is known of the runs' lengths."""
    budgets = make_budgets(make_budget(), usd=spent_cents / 100)
    workload = make_workload(team="vision")
    for run_h in hours:
        run = (workload, gpus, 3_600_000, None if run_h is None else run_h * HOUR_S)
        if budgets.refusal(*run) is None:
            budgets.commit(*run)
    [check] = budgets.checks(workload, gpus, 3_600_000, 1.0)
    assert check.spent + check.committed <= check.budget.limit


def test_a_run_of_unknown_length_is_committed_for_as_long_as_it_runs():
    """$1,000 with one cent left start nothing, however many want to."""
    budgets = make_budgets(make_budget(usd=1000), usd=999.99)
    workload = make_workload(team="vision")
    assert budgets.refusal(workload, 1, 4 * USD, None) is not None


def test_a_run_that_can_never_start_reads_so_first():
    """Waiting for next month helps against the one budget, not against the other."""
    budgets = make_budgets(
        make_budget("pool", scope="pool", of=None), make_budget("small", usd=5), usd=395
    )
    refusal = budgets.refusal(make_workload(team="vision"), 1, 6 * USD, HOUR_S)
    assert (refusal.budget.name, refusal.is_permanent) == ("small", True)


def test_runs_without_gpus_use_no_budget():
    """Also if all of it is gone."""
    budgets = make_budgets(make_budget(), usd=999)
    assert budgets.checks(make_workload(team="vision", gpus=0), 0, None, None) == ()


def test_parts_of_the_unit_count_as_a_whole():
    """A quarter of a GPU-second over the limit is over the limit."""
    budgets = make_budgets(make_budget(gpu_hours=1), gpu_hours=1)
    refusal = budgets.refusal(make_workload(team="vision"), 0.25, None, 1)
    assert refusal.expected == 1


@given(
    st.integers(0, 10**9),
    st.lists(
        st.tuples(
            st.sampled_from(["vision", "speech", None]),
            st.sampled_from([0.25, 1, 8]),
            st.integers(1, 40 * USD),
            st.floats(1, 1e6),
        ),
        max_size=12,
    ),
)
def test_hard_limits_hold(spent, runs):
    """Whatever is admitted, nothing in money or in GPU-hours comes to more than its limit."""
    policy = [
        make_budget("all", scope="pool", of=None, usd=900),
        make_budget("vision", gpu_hours=300),
    ]
    usage = PastUsage(micro_usd_by_budget={"all": spent}, gpu_s_by_budget={"vision": spent // 1000})
    budgets = Budgets(policy, usage)
    used = Counter({"all": spent, "vision": spent // 1000})
    for team, gpus, price, expected_s in runs:
        workload = make_workload(team=team)
        refusal = budgets.refusal(workload, gpus, price, expected_s)
        if refusal is not None:
            assert refusal.total > refusal.budget.limit
            continue
        budgets.commit(workload, gpus, price, expected_s)
        used["all"] += gpus * expected_s * price / HOUR_S
        used["vision"] += gpus * expected_s if team == "vision" else 0
    assert used["all"] <= max(spent, 900 * USD)
    assert used["vision"] <= max(spent // 1000, 300 * HOUR_S)


@pytest.mark.parametrize(
    ("period", "now", "zone", "want_start", "want_end"),
    [
        pytest.param("day", "2026-09-01T12:00Z", "UTC", "2026-09-01", "2026-09-02", id="a day"),
        pytest.param("week", "2026-09-06T23:59Z", "UTC", "2026-08-31", "2026-09-07", id="Sunday"),
        pytest.param("week", "2026-09-07T00:00Z", "UTC", "2026-09-07", "2026-09-14", id="Monday"),
        pytest.param(
            "month", "2026-12-31T23:00Z", "UTC", "2026-12-01", "2027-01-01", id="December"
        ),
        pytest.param(
            "month", "2028-02-29T00:00Z", "UTC", "2028-02-01", "2028-03-01", id="leap day"
        ),
        pytest.param(
            "month",
            "2026-08-31T22:00Z",
            "Europe/Berlin",
            "2026-08-31T22:00",
            "2026-09-30T22:00",
            id="already September in Berlin",
        ),
        pytest.param(
            "day",
            "2026-10-25T12:00Z",
            "Europe/Berlin",
            "2026-10-24T22:00",
            "2026-10-25T23:00",
            id="a day of 25 hours",
        ),
        pytest.param(
            "day",
            "2018-11-04T12:00Z",
            "America/Sao_Paulo",
            "2018-11-04T03:00",
            "2018-11-05T02:00",
            id="a day without midnight",
        ),
    ],
)
def test_periods(period, now, zone, want_start, want_end):
    """In UTC, from the zone's midnight to its next."""
    now = datetime.fromisoformat(now)
    assert period_start(period, now, zone) == datetime.fromisoformat(want_start).replace(tzinfo=UTC)
    assert period_end(period, now, zone) == datetime.fromisoformat(want_end).replace(tzinfo=UTC)


@given(
    st.sampled_from(["day", "week", "month"]),
    st.integers(946_684_800, 2_114_380_800),
    st.sampled_from(ZONES),
)
def test_periods_follow_each_other_without_gaps(period, moment_s, zone):
    """Each moment of 2000 to 2036 is in one period, which begins where a day of the zone does."""
    now = datetime.fromtimestamp(moment_s, UTC)
    start, end = period_start(period, now, zone), period_end(period, now, zone)
    assert start <= now < end
    assert period_start(period, end - timedelta(microseconds=1), zone) == start
    assert period_start(period, end, zone) == end
    before = start - timedelta(microseconds=1)
    assert before.astimezone(ZoneInfo(zone)).date() < start.astimezone(ZoneInfo(zone)).date()


@pytest.mark.parametrize(
    ("changes", "want_messages"),
    [
        pytest.param(
            {"usd": -1},
            ["usd is negative (got -1). Allowed: a number, 0 to 1,000,000,000."],
            id="negative",
        ),
        pytest.param(
            {"usd": float("nan")},
            ["usd is not finite (got nan). Allowed: a number, 0 to 1,000,000,000."],
            id="not a number",
        ),
        pytest.param(
            {"time_zone": "Europe/Berlim"},
            [
                "time_zone is not a time zone (got 'Europe/Berlim'). "
                "Allowed: a name such as 'UTC' or 'Europe/Berlin'."
            ],
            id="no such zone",
        ),
        pytest.param(
            {"period": "moth"},
            [
                "period is not one of the choices (got 'moth'). Did you mean 'month'? "
                "Allowed: day, week, month."
            ],
            id="a misspelled period",
        ),
        pytest.param(
            {"gpu_hours": 5, "usd": 5},
            ["budgets.0 needs one limit. Allowed: either usd or gpu_hours."],
            id="two limits",
        ),
        pytest.param(
            {"scope": "pool"},
            ["budgets.0.of has no effect with scope pool (got 'vision')"],
            id="a part of the pool",
        ),
        pytest.param({"of": None}, ["budgets.0.of is missing. Allowed: a team."], id="of no team"),
        pytest.param(
            {"scope": "deployment", "of": None},
            ["budgets.0.of is missing. Allowed: a deployment."],
            id="no deployment's",
        ),
        pytest.param(
            {"mode": "stopp"},
            [
                "mode is not one of the choices (got 'stopp'). Did you mean 'stop'? "
                "Allowed: soft, hard, stop."
            ],
            id="a misspelled mode",
        ),
    ],
)
def test_refused_policies(changes, want_messages):
    """Each mistake is named with its field."""
    try:
        errors = budget_contradictions([make_budget(**changes)])
    except ValidationError as error:
        errors = input_errors(error, BudgetPolicy)
    assert [str(e) for e in errors] == want_messages


@pytest.mark.parametrize(
    ("budget", "quotas", "want"),
    [
        pytest.param(
            {"queues": {"kritical": "soft"}},
            {},
            "budgets.0.queues.kritical is not a queue of the policy (got 'kritical'). "
            "Did you mean 'critical'? Allowed: critical, default, high, low, medium",
            id="a misspelled queue",
        ),
        pytest.param({"queues": {"default": "soft"}}, {}, None, id="Prefect's own queue"),
        pytest.param({"of": "vison"}, {"teams": {"vision": {}}}, None, id="teams are not listed"),
        pytest.param(
            {"of": "vison"},
            {"teams": {"vision": {}}, "unlisted": "refused"},
            "budgets.0.of is a team that is rejected by quotas.unlisted (got 'vison'). Did "
            "you mean 'vision'? Allowed: vision.",
            id="an unknown team",
        ),
    ],
)
def test_names_that_a_policy_does_not_know(budget, quotas, want):
    """Without a list of teams any name may be one."""
    values = {"name": "b", "scope": "team", "of": "vision", "period": "day", "usd": 1}
    sections = {"budgets": [values | budget]} | ({"quotas": quotas} if quotas else {})
    if want is None:
        make_policy(**sections)
        return
    with pytest.raises(InvalidInput) as error:
        make_policy(**sections)
    assert want in str(error.value)


def test_names_of_budgets_are_unique():
    """Their usage is found by name."""
    errors = budget_contradictions([make_budget("a"), make_budget("a", usd=1)])
    assert [str(e) for e in errors] == ["budgets.1.name is used twice (got 'a')"]
