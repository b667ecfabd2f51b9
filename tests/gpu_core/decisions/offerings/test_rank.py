"""Which offering is best for a job, and why the others are not."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.decisions.catalog.refresh import CoveredPlaces, Observation, refreshed
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.offerings.constraints import Conditions, Constraints, Goal
from gpu_core.decisions.offerings.estimates import observed_on
from gpu_core.decisions.offerings.options import Certainty, RefusalReason
from gpu_core.decisions.offerings.rank import choose, verdict
from gpu_core.decisions.requests.requirements.estimates.duration import Basis
from gpu_core.testing.builders.catalog import make_catalog, make_row
from gpu_core.testing.builders.jobs import make_job
from tests.support.examples import examples

NOW = datetime(2026, 11, 21, tzinfo=UTC)
HOUR = timedelta(hours=1)

# A billion tokens of full training in 8B are likely to take 13.4 h on 8 A100s and 4.2 h on 8 H100s.
CATALOG = make_catalog(
    a100_8x=make_row(20.0, {"a": 8.0}, "a100-80gb"),
    h100_8x=make_row(55.0, {"a": 15.0}, "h100-80gb"),
    t4_8x=make_row(4.0, None, "t4"),
    l4_1x=make_row(0.8, None, "l4", gpu_count=1),
)
JOB = make_job("llama-3-8b")


def ask(job=JOB, catalog=CATALOG, now=NOW, **more):
    constraints = Constraints(
        **{k: more.pop(k) for k in list(more) if k in Constraints.__dataclass_fields__}
    )
    return choose(job, catalog, tuple(catalog.offerings.values()), constraints, now, **more)


def names(choice):
    return [
        (c.option.key.instance_type, c.option.key.capacity_type, c.certainty)
        for c in choice.candidates
    ]


def reasons(choice):
    return {(r.key.instance_type, r.key.capacity_type): r.reason for r in choice.refused}


def test_the_cheapest_job_comes_first_not_the_cheapest_hour():
    first = ask().candidates[0].option
    assert [name for name, _, _ in names(ask())] == ["h100.8x", "a100.8x", "h100.8x", "a100.8x"]
    assert (first.key.instance_type, first.key.capacity_type) == ("h100.8x", "spot")
    assert first.cost.total < ask().candidates[1].option.cost.total


def test_the_fastest_comes_first_where_time_counts():
    assert names(ask(goal=Goal.TIME))[0] == ("h100.8x", "on-demand", Certainty.SAFE)


def test_time_and_cost_are_those_of_the_formulas():
    job = make_job("llama-3-8b", amount=1e9)
    on_demand = next(
        c.option
        for c in ask(job).candidates
        if str(c.option.key) == "aws a100.8x us-east-1 on-demand"
    )
    work_s = 6 * 8.03e9 * 1e9 / (8 * 312e12 * 0.40)
    load_s = 2 * 8.03e9 / 1e9
    assert on_demand.wall_s == pytest.approx(300 + load_s + work_s)
    assert on_demand.cost.compute == pytest.approx(20e6 * on_demand.wall_s / 3600, abs=1)
    assert on_demand.interruption_chance == 0
    assert on_demand.cost.compute_low < on_demand.cost.compute < on_demand.cost.compute_high


def test_spot_takes_longer_by_checkpoints_and_interruptions():
    by_type = {c.option.key.capacity_type: c.option for c in reversed(ask().candidates)}
    assert by_type["spot"].overhead > 1
    assert by_type["spot"].wall_s > by_type["on-demand"].wall_s
    assert 0 < by_type["spot"].interruption_chance < 1


def test_another_policy_of_checkpoints_can_be_given():
    twice = ask(overhead=lambda *_: 2.0)
    spot = next(c.option for c in twice.candidates if c.option.key.capacity_type == "spot")
    assert spot.overhead == 2.0
    never = ask(overhead=lambda *_: float("inf"))
    assert reasons(never)["h100.8x", "spot"] is RefusalReason.NEVER_ENDS


@pytest.mark.parametrize(
    ("catalog", "job", "constraints", "want"),
    [
        pytest.param(CATALOG, JOB, {}, RefusalReason.NO_FAST_UNITS, id="a T4 has no bf16"),
        pytest.param(
            CATALOG,
            make_job("llama-3-8b", precision=Precision.FP16),
            {},
            RefusalReason.TOO_LITTLE_MEMORY,
            id="nor has it the memory",
        ),
        pytest.param(
            make_catalog(h100_8x=make_row(), t4_8x=make_row(4.0, None, "h100-80gg")),
            JOB,
            {},
            RefusalReason.UNKNOWN_GPU_TYPE,
            id="an unknown GPU type",
        ),
        pytest.param(
            make_catalog(h100_8x=make_row(), t4_8x=make_row(4.0, None, "a100-40gb", gpu_count=1)),
            JOB,
            {"max_nodes": 8},
            RefusalReason.UNKNOWN_NETWORK,
            id="several nodes with an unknown network",
        ),
        pytest.param(
            make_catalog(h100_8x=make_row(), t4_8x=make_row(40.0, None, "a100-80gb")),
            JOB,
            {"budget_micro_usd": 100_000_000},
            RefusalReason.OVER_BUDGET,
            id="too dear",
        ),
        pytest.param(
            make_catalog(
                h100_8x=make_row(90.0, None, "h100-80gb"), t4_8x=make_row(1.0, None, "a100-80gb")
            ),
            JOB,
            {"deadline_at": NOW + 3 * HOUR},
            RefusalReason.TOO_LATE,
            id="too slow",
        ),
    ],
)
def test_reasons(catalog, job, constraints, want):
    assert reasons(ask(job, catalog, **constraints))["t4.8x", "on-demand"] is want


def test_a_reason_shows_its_numbers():
    found = {r.reason: r.summary for r in ask(deadline_at=NOW + 2 * HOUR).refused}
    assert found[RefusalReason.NO_FAST_UNITS] == "does not support bf16, only fp32, fp16, int8"
    assert found[RefusalReason.TOO_LITTLE_MEMORY].endswith("but only 20.1 GiB are usable")
    assert found[RefusalReason.TOO_LATE].endswith(
        "on 8 GPUs, but only 2h 00m remain until the deadline"
    )


def test_what_is_not_offered_any_more_and_where_there_is_no_spot():
    catalog = make_catalog(x_8x=make_row(10.0, {"a": 10.0}), y_8x=make_row(9.0))
    scope = CoveredPlaces(provider="aws", region="us-east-1", capacity_type="on-demand")
    keep = {k: 10_000_000 for k in catalog.offerings if k.instance_type == "x.8x" and not k.zone}
    seen = Observation(instance_types={}, micro_usd_per_hour=keep, scopes=(scope,), source="a test")
    found = reasons(ask(catalog=refreshed(catalog, seen, NOW).catalog))
    assert found["x.8x", "spot"] is RefusalReason.NO_SPOT_CAPACITY
    assert found["y.8x", "on-demand"] is RefusalReason.NOT_OFFERED


def with_memory(row, **fields):
    """The on-demand price is from memory."""
    row["prices"][0] |= {"from_memory": True, **fields}
    return row


def test_a_price_from_memory_is_not_used():
    choice = ask(
        catalog=make_catalog(x_8x=with_memory(make_row(0.1, {"a": 0.09})), y_8x=make_row(9.0))
    )
    # Nor is its spot price measured by it, which is a hundredth of that of the same hardware.
    assert names(choice) == [
        ("x.8x", "spot", Certainty.SAFE),
        ("y.8x", "on-demand", Certainty.SAFE),
    ]
    (refusal,) = choice.refused
    assert (refusal.key.instance_type, refusal.reason) == ("x.8x", RefusalReason.UNKNOWN_PRICE)
    assert refusal.summary == (
        "the price ($0.1000 per hour) does not have a source. Refresh the catalog or "
        "provide your own price with --prices"
    )


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({}, "(price of 2026-09-01, 81 days old).", id="of a known day"),
        pytest.param(
            {"as_of_is_earliest": True},
            "(price of 2026-09-01 or later, at most 81 days old).",
            id="of an unknown day",
        ),
        pytest.param({"as_of": "2026-11-21"}, "(price of 2026-11-21).", id="of today"),
    ],
)
def test_the_age_of_the_price_that_decides_is_said(fields, want):
    row = make_row(9.0)
    row["prices"][0] |= fields
    constraints = Constraints()
    assert verdict(ask(catalog=make_catalog(y_8x=row)), constraints, NOW).endswith(want)


def test_a_doubtful_price_of_an_unknown_day_names_none():
    row = make_row(10.0, {"a": 1.0, "b": 3.0, "c": 3.0, "d": 3.0})
    row["prices"][1]["as_of_is_earliest"] = True
    (doubtful,) = ask(catalog=make_catalog(a100_8x=row)).refused
    assert doubtful.reason is RefusalReason.DOUBTFUL_PRICE
    assert doubtful.summary.startswith(
        "the price on 2026-09-01 or later was $1.00 per hour, compared to $3.00 in other zones."
    )


def test_types_without_a_spot_price_are_named_where_they_could_run_the_job():
    choice = ask()
    assert [key.name for key in choice.types_without_spot] == []
    own = make_row(None)
    own["prices"] = [{"region": "cellar", "capacity_type": "reserved", "usd_per_hour": 6.5}]
    catalog = make_catalog(
        x_8x=make_row(9.0, {"a": 3.0}), y_8x=make_row(9.0), t_8x=make_row(1.0, None, "t4"), z_8x=own
    )
    # The T4s cannot run it, and the machines in the cellar are not rented.
    assert [key.name for key in ask(catalog=catalog).types_without_spot] == ["y.8x"]


def test_more_nodes_are_taken_where_the_deadline_wants_them():
    catalog = make_catalog(a100_8x=make_row(20.0, None, "a100-80gb", network_gbps=400))
    loose = ask(catalog=catalog, max_nodes=4).candidates[0].option
    tight = ask(catalog=catalog, max_nodes=4, deadline_at=NOW + 5 * HOUR).candidates[0].option
    assert (loose.nodes, tight.nodes) == (1, 4)
    assert tight.cost.total > loose.cost.total


def test_on_spot_a_deadline_is_safe_only_with_time_to_do_it_all_on_demand():
    assert names(ask(deadline_at=NOW + 6 * HOUR)) == [
        ("h100.8x", "on-demand", Certainty.SAFE),
        ("h100.8x", "spot", Certainty.LIKELY),
    ]
    assert names(ask(deadline_at=NOW + 24 * HOUR))[0] == ("h100.8x", "spot", Certainty.SAFE)


def test_history_replaces_the_prior_on_its_gpu_type():
    observed = observed_on("a100-80gb", 8, (20_000.0,))
    options = {c.option.gpu_type: c.option for c in ask(observed=observed).candidates}
    assert options["a100-80gb"].work.basis is Basis.OBSERVED
    assert options["a100-80gb"].work.likely_s == pytest.approx(1e9 / 20_000)
    assert options["h100-80gb"].work.basis is Basis.TRANSFERRED


def test_a_history_on_an_unknown_gpu_is_refused():
    with pytest.raises(
        InvalidInput, match=r"observed does not use a known GPU .* Did you mean 'a100-80"
    ):
        observed_on("a100-80g", 8, (1.0,))


@pytest.mark.parametrize(
    ("constraints", "want_start"),
    [
        pytest.param({}, "Take aws h100.8x us-east-1 a spot (8 GPUs): $", id="it can be done"),
        pytest.param(
            {"deadline_at": NOW + 5 * HOUR},
            "Take aws h100.8x us-east-1 on-demand (8 GPUs): $",
            id="if all goes as is likely",
        ),
        pytest.param(
            {"deadline_at": NOW + timedelta(minutes=10)},
            "No offering can complete the work by 2026-11-21 00:10 UTC. The fastest offering is "
            "aws h100.8x us-east-1 on-demand (8 GPUs): $",
            id="not in time",
        ),
        pytest.param(
            {"budget_micro_usd": 1_000_000},
            "No offering can complete the work within the budget of $1.00. The cheapest offering "
            "is aws h100.8x us-east-1 a spot",
            id="not for so little",
        ),
        pytest.param(
            {"budget_micro_usd": 1_000_000, "deadline_at": NOW + 5 * HOUR},
            "No offering can complete the work by 2026-11-21 05:00 UTC within the budget of $1.00. "
            "The cheapest offering that meets the deadline is aws h100.8x us-east-1 on-demand",
            id="neither: what is in time, and what is cheap",
        ),
    ],
)
def test_the_verdict(constraints, want_start):
    found = Constraints(**constraints)
    choice = choose(JOB, CATALOG, tuple(CATALOG.offerings.values()), found, NOW)
    assert verdict(choice, found, NOW).startswith(want_start)
    assert choice.is_feasible is want_start.startswith("Take")


def test_the_verdict_says_where_it_is_only_likely():
    constraints = Constraints(deadline_at=NOW + 5 * HOUR)
    choice = choose(JOB, CATALOG, tuple(CATALOG.offerings.values()), constraints, NOW)
    want = ", but the upper estimate exceeds a limit (price of 2026-09-01, 81 days old)."
    assert want in verdict(choice, constraints, NOW)


def test_the_cheapest_that_would_do_is_named_beside_the_cheapest_at_all():
    constraints = Constraints(budget_micro_usd=1_000_000, deadline_at=NOW + 5 * HOUR)
    choice = choose(JOB, CATALOG, tuple(CATALOG.offerings.values()), constraints, NOW)
    assert "The cheapest offering overall is aws h100.8x us-east-1 a spot" in verdict(
        choice, constraints, NOW
    )


@pytest.mark.parametrize(
    ("job", "constraints", "want_message"),
    [
        pytest.param(
            JOB,
            {"deadline_at": NOW - HOUR},
            "deadline is in the past (got '2026-11-20T23:00:00+00:00')",
            id="a deadline in the past",
        ),
        pytest.param(
            JOB,
            {"budget_micro_usd": 0},
            "budget buys nothing (got 0). Allowed: more than 0. Remove it for no limit.",
            id="no budget",
        ),
        pytest.param(
            make_job(5000.0),
            {},
            "model fits on no offering (got 'transformer with 5T parameters'). Allowed: the "
            "nearest is aws a100.8x us-east-1",
            id="a model that no GPU holds",
        ),
        pytest.param(JOB, {"max_nodes": 0}, "max-nodes is too small", id="no node"),
        pytest.param(JOB, {"data_gib": -1.0}, "data-gib is out of range", id="negative data"),
        pytest.param(JOB, {"data_gib": float("nan")}, "data-gib is out of range", id="no data"),
        pytest.param(
            JOB,
            {"conditions": Conditions(storage_gb_per_s=0)},
            "storage-gb-per-s is out of range",
            id="storage that stands still",
        ),
        pytest.param(
            JOB,
            {"conditions": Conditions(spot_mean_life_s=0)},
            "spot-life is out of range",
            id="an instance that never lives",
        ),
        pytest.param(make_job("gpt-2", amount=0), {}, "amount is too small", id="nothing to do"),
    ],
)
def test_wrong_input_is_one_clear_error(job, constraints, want_message):
    with pytest.raises(InvalidInput) as caught:
        ask(job, **constraints)
    assert want_message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_takes_longer_than_a_century_is_refused():
    choice = ask(make_job("llama-3-8b", amount=1e20))
    assert RefusalReason.NEVER_ENDS in {refusal.reason for refusal in choice.refused}
    assert verdict(choice, Constraints(), NOW) == (
        "No suitable offering found. See the reasons for more information."
    )


def test_an_empty_catalog_is_no_error():
    empty = make_catalog()
    choice = choose(JOB, empty, (), Constraints(), NOW)
    assert (choice.is_feasible, choice.cheapest) == (False, None)
    assert verdict(choice, Constraints(), NOW) == (
        "No suitable offering found. See the reasons for more information."
    )


hours = st.one_of(st.none(), st.integers(1, 48))
budgets = st.one_of(st.none(), st.integers(1, 500))
goals = st.sampled_from(Goal)


@settings(max_examples=examples(50))
@given(left_h=hours, budget_usd=budgets, goal=goals, seed=st.randoms(use_true_random=False))
def test_the_choice_is_sound_and_the_same_for_any_order(left_h, budget_usd, goal, seed):
    constraints = Constraints(
        goal=goal,
        deadline_at=None if left_h is None else NOW + left_h * HOUR,
        budget_micro_usd=None if budget_usd is None else budget_usd * 1_000_000,
    )
    offerings = list(CATALOG.offerings.values())
    choice = choose(JOB, CATALOG, tuple(offerings), constraints, NOW)
    seed.shuffle(offerings)
    assert choose(JOB, CATALOG, tuple(offerings), constraints, NOW) == choice
    # Every offering is a candidate or refused, once.
    reported = [c.option.key for c in choice.candidates] + [r.key for r in choice.refused]
    assert sorted(map(str, reported)) == sorted(map(str, CATALOG.offerings))
    for candidate in choice.candidates:
        assert candidate.option.violation(constraints, NOW) is None
        assert candidate.option.fit.fits
    if choice.is_feasible and goal is Goal.COST:
        safe = [c.option.cost.total for c in choice.candidates if c.certainty is Certainty.SAFE]
        assert safe == sorted(safe)


@settings(max_examples=examples(50))
@given(left_h=st.integers(1, 24), budget_usd=st.integers(1, 500))
def test_more_time_or_money_never_makes_it_worse(left_h, budget_usd):
    less = ask(deadline_at=NOW + left_h * HOUR, budget_micro_usd=budget_usd * 1_000_000)
    more = ask(deadline_at=NOW + 2 * left_h * HOUR, budget_micro_usd=2 * budget_usd * 1_000_000)
    assert len(more.candidates) >= len(less.candidates)


def test_conditions_change_what_starts_and_saves_cost():
    slow = Conditions(startup_s=3600)
    assert ask(conditions=slow).candidates[0].option.wall_s > 3600
