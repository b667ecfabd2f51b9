"""Usage from starts and ends, against the ledger's own arithmetic; and what is news at a look."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.attempts.ledger_changes import LedgerFollower
from gpu_core.decisions.costs.usage import usage_cost as cost
from gpu_core.decisions.costs.usage.usage import sum_usage
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.prices import PriceChange, Rates
from gpu_core.decisions.quota.usage_tracker import UsageTracker
from gpu_core.testing.builders.attempts import at, make_attempt, make_run
from gpu_core.testing.builders.workloads import make_policy

FAIR = {
    "ordering": {"keys": ["fair-share"]},
    "fair_share": {"half_life": "1h"},
    "preemption": {"enabled": False},
}


def budgets(*scopes, **more):
    return {
        "budgets": [
            {"name": f"b{n}", "scope": scope, "period": "day", "usd": 100, **of}
            for n, (scope, of) in enumerate(scopes)
        ],
        **more,
    }


def held(start, end, run="run-1", number=1, **fields):
    released_at = None if end is None else at(end)
    return make_attempt(run, number, admitted_at=at(start), released_at=released_at, **fields)


def reported(book, *attempts, run=None):
    for attempt in attempts:
        book.start(run or make_run(), attempt)
        if attempt.released_at is not None:
            book.end(run or make_run(), attempt)
    return book


def test_shares_decay():
    """An hour on one GPU, a half-life ago, is half of what it was at its end."""
    book = reported(UsageTracker(make_policy(**FAIR), at(1)), held(0, 1))
    (then,) = book.usage(at(1)).gpu_s_by_user.values()
    later = book.usage(at(2)).gpu_s_by_user
    assert later == {("vision", "ada"): pytest.approx(then / 2)}


def test_in_dollars_what_costs_twice_counts_twice():
    """The same hour."""
    dollars = {**FAIR, "fair_share": {"half_life": "1h", "measure": "dollars"}}
    used = [
        reported(
            UsageTracker(make_policy(**dollars), at(1)), held(0, 1, price_micro_usd_per_gpu_hour=p)
        )
        .usage(at(1))
        .gpu_s_by_user["vision", "ada"]
        for p in (1_000_000, 2_000_000)
    ]
    assert used[1] == pytest.approx(2 * used[0])


def test_what_is_not_asked_for_is_not_kept():
    """Without fair share no team has a share."""
    book = reported(UsageTracker(make_policy(), at(1)), held(0, 1))
    assert book.usage(at(1)).gpu_s_by_user == {}
    assert book.since == at(1)


@pytest.mark.parametrize(
    ("scope", "counts"),
    [
        pytest.param(("pool", {}), True, id="the pool's"),
        pytest.param(("team", {"of": "vision"}), True, id="its team's"),
        pytest.param(("user", {"of": "ada"}), True, id="its user's"),
        pytest.param(("project", {"of": "detector"}), True, id="its project's"),
        pytest.param(("team", {"of": "audio"}), False, id="another team's"),
        pytest.param(("user", {"of": "vision"}), False, id="a user of its team's name"),
    ],
)
def test_a_budget_counts_whom_it_is_for(scope, counts):
    """In money and in GPU-seconds."""
    usage = reported(UsageTracker(make_policy(**budgets(scope)), at(2)), held(0, 2)).usage(at(2))
    assert usage.micro_usd_by_budget["b0"] == (2_000_000 if counts else 0)
    assert usage.gpu_s_by_budget["b0"] == (7_200 if counts else 0)


def test_only_the_current_period_counts():
    """The test day's noon is 12 hours into it: an attempt that started 14 hours ago counts 12."""
    book = UsageTracker(make_policy(**budgets(("pool", {}))), at(0))
    assert book.since == at(-12)
    assert reported(book, held(-14, None)).usage(at(0)).micro_usd_by_budget["b0"] == 12_000_000


def test_a_book_serves_until_a_period_turns_or_the_rules_change():
    """Then a new one is opened."""
    policy = make_policy(**budgets(("pool", {})))
    book = UsageTracker(policy, at(0))
    assert book.serves(policy, at(11.9))
    assert not book.serves(policy, at(12))
    assert not book.serves(make_policy(**FAIR), at(0))
    assert book.serves(
        make_policy(**budgets(("pool", {}), waiting={"publish_per_cycle": 3})), at(0)
    )


def test_what_never_was_costs_nothing():
    """A run that another machine got instead."""
    book = reported(
        UsageTracker(make_policy(**budgets(("pool", {}), **FAIR)), at(1)), held(0, None)
    )
    book.withdraw("run-1/1")
    usage = book.usage(at(1))
    assert usage.micro_usd_by_budget["b0"] == 0
    assert usage.gpu_s_by_user == {("vision", "ada"): pytest.approx(0)}


def test_what_has_freed_its_gpus_counts_until_then():
    """For two hours, since Prefect does not answer; then its end is judged. Both days are equal."""
    book = UsageTracker(make_policy(**budgets(("pool", {}), **FAIR)), at(3))
    other = UsageTracker(make_policy(**budgets(("pool", {}), **FAIR)), at(3))
    reported(book, held(0, None))
    book.update(make_run(), held(0, None, gone_at=at(1)))
    want = reported(other, held(0, 1)).usage(at(3))
    for used in (book.usage(at(3)), _ended(book, held(0, 1)).usage(at(3))):
        assert used.micro_usd_by_budget == want.micro_usd_by_budget == {"b0": 1_000_000}
        assert used.gpu_s_by_user == pytest.approx(want.gpu_s_by_user)


def _ended(book, attempt):
    book.end(make_run(), attempt)
    return book


def test_a_price_that_changes_while_it_runs_counts_from_then():
    """Not only when it has ended: a budget would be overspent by then."""
    dearer = PriceChange(since=at(1), rates=Rates(gpu_micro_usd_per_hour=3_000_000, source="c"))
    book = reported(UsageTracker(make_policy(**budgets(("pool", {}))), at(2)), held(0, None))
    book.update(make_run(), held(0, None, later_prices=(dearer,)))
    assert book.usage(at(2)).micro_usd_by_budget["b0"] == 4_000_000


def test_what_is_not_open_is_not_updated():
    book = UsageTracker(make_policy(**budgets(("pool", {}))), at(2))
    book.update(make_run(), held(0, None, gone_at=at(1)))
    assert book.usage(at(2)).micro_usd_by_budget["b0"] == 0


def test_a_postponed_attempt_costs_its_budget_and_its_team_nothing():
    """It counts while it waits for its pod; no report has a cost of it when it is over."""
    book = UsageTracker(make_policy(**budgets(("pool", {}), **FAIR)), at(1))
    reported(book, held(0, None))
    assert book.usage(at(1)).micro_usd_by_budget["b0"] == 1_000_000
    book.end(make_run(), held(0, 1, end_reason=EndReason.POSTPONED))
    usage = book.usage(at(1))
    assert (usage.micro_usd_by_budget["b0"], usage.gpu_s_by_budget["b0"]) == (0, 0)
    assert usage.gpu_s_by_user == {("vision", "ada"): pytest.approx(0)}


histories = st.lists(
    st.tuples(st.integers(0, 600), st.integers(0, 600) | st.none(), st.integers(1, 8)),
    max_size=12,
)


@given(histories, st.lists(st.integers(0, 660), max_size=8))
def test_reading_again_and_again_gives_what_one_reading_gives(spans, looks):
    """Whatever is read twice or ends between looks, the sums are those of the whole history."""
    runs = [(make_run(f"r{n}"), start, end, gpus) for n, (start, end, gpus) in enumerate(spans)]

    def as_of(minute):
        return [
            (
                run,
                (
                    held(
                        start / 60,
                        None if end is None or start + end > minute else (start + end) / 60,
                        run.flow_run_id,
                        gpu_ids=tuple(map(str, range(gpus))),
                    ),
                ),
            )
            for run, start, end, gpus in runs
            if start <= minute
        ]

    follower, book = LedgerFollower(), UsageTracker(make_policy(**budgets(("pool", {}))), at(0))
    previous = at(0) - timedelta(minutes=10)
    for minute in [*sorted(looks), 660]:
        since = previous - timedelta(minutes=10)
        records = [
            (run, attempts)
            for run, attempts in as_of(minute)
            if attempts[0].released_at is None
            or attempts[0].released_at > since
            or run.flow_run_id in follower.open_runs
        ]
        news = follower.observe(records, since)
        for run, attempt in news.started:
            book.start(run, attempt)
        for run, attempt in news.ended:
            book.end(run, attempt)
        assert news.withdrawn == ()
        previous = at(minute / 60)

    expected = sum_usage(
        cost.attempt_usage(attempt, at(11)) for _, attempts in as_of(660) for attempt in attempts
    ).micro_usd
    assert book.usage(at(11)).micro_usd_by_budget["b0"] == expected


def test_an_attempt_that_is_gone_from_the_ledger_was_withdrawn():
    """It is asked for by its run, because it was open."""
    follower = LedgerFollower()
    follower.observe([(make_run(), (held(0, None),))], at(-1))
    assert follower.open_runs == {"run-1"}
    assert follower.observe([], at(0)).withdrawn == ("run-1/1",)
    assert follower.open_runs == frozenset()


def test_what_ended_before_the_look_reaches_back_is_no_news():
    """A run that starts again is read with all its attempts."""
    records = [(make_run(), (held(0, 1), held(5, None, number=2)))]
    news = LedgerFollower().observe(records, at(4))
    assert [attempt.number for _, attempt in news.started] == [2]
    assert news.ended == ()


def test_an_end_that_was_written_down_late_is_news():
    """The machine had died; what was open is looked at until it is over."""
    follower = LedgerFollower()
    follower.observe([(make_run(), (held(0, None),))], at(-1))
    records = [(make_run(), (held(0, 1),))]
    assert len(follower.observe(records, at(20)).ended) == 1
    assert follower.observe(records, at(20)).ended == ()
