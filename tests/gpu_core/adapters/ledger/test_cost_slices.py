"""The database's sums are those of the attempts, one by one, on SQLite and on PostgreSQL."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.cost_slices import CostQuestion
from gpu_core.decisions.costs.reports.cost_report import COST_KEYS, Keys, cost_report
from gpu_core.decisions.costs.usage.time_use import USES, TimeUse, uses_of_attempt
from gpu_core.decisions.costs.usage.usage import US_PER_HOUR, Usage, sum_usage
from gpu_core.decisions.costs.usage.usage_cost import Window, attempt_usage
from gpu_core.decisions.model.attempts import Attempt, EndReason, Provenance
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.prices import PriceChange, Rates
from gpu_core.testing.builders.attempts import NOON, admit, at, make_attempt, make_run

NOW = at(3)
moments = st.integers(-(10**10), 10**10).map(lambda us: NOON + timedelta(microseconds=us))
prices = st.none() | st.integers(0, 10**8)


@st.composite
def attempts(draw: st.DrawFn) -> Attempt:
    """Any attempt: of this version or an older one, whole or in parts, open, gone or over."""
    admitted_at, other = draw(moments), draw(st.none() | moments)
    end = None if other is None else max(other, admitted_at)
    changes = draw(st.lists(moments.filter(lambda at: at > admitted_at), max_size=2, unique=True))
    later = tuple(
        PriceChange(since=since, rates=Rates(gpu_micro_usd_per_hour=draw(prices), source="c"))
        for since in sorted(changes)
    )
    gpus = draw(st.sampled_from([None, *map(Fraction, ("0", "1/7", "1/3", "1/4", "8"))]))
    count = 1 if gpus is None else -(-gpus.numerator // gpus.denominator)
    gpu_ids = tuple(str(n) for n in range(count))
    share = NodeShare(
        node="node-1", gpu_ids=gpu_ids, share_milli=draw(st.sampled_from([250, 1000]))
    )
    return make_attempt(
        "replaced",
        gpu_ids=gpu_ids,
        shares=draw(st.sampled_from([None, (share,)])),
        gpu_quantity=gpus,
        admitted_at=admitted_at,
        released_at=end,
        gone_at=draw(st.none() | moments) if end is None else None,
        end_reason=None if end is None else draw(st.sampled_from(EndReason)),
        price_micro_usd_per_gpu_hour=draw(prices),
        price_micro_usd_per_cpu_hour=draw(prices),
        price_micro_usd_per_gib_hour=draw(prices),
        price_source=draw(st.sampled_from([None, "policy"])),
        cpu_milli=draw(st.none() | st.integers(1, 99_999)),
        memory_mib=draw(st.none() | st.integers(1, 99_999)),
        later_prices=later or None,
        number=draw(st.sampled_from([1, 2])),
        started_at=draw(st.none() | moments),
        first_step_at=draw(st.none() | moments),
        checkpointed_at=draw(st.none() | moments),
        gpu_type=draw(st.sampled_from(["a100-80gb", "t4"])),
        zone=draw(st.none() | st.just("use1-az4")),
    )


@settings(deadline=None)
@given(
    given_attempts=st.lists(st.tuples(attempts(), st.sampled_from(["a", "b", None])), max_size=6),
    window=st.tuples(moments, moments).map(lambda pair: Window(min(pair), max(pair))),
    keys=st.lists(st.sampled_from(COST_KEYS), max_size=3, unique=True).map(tuple),
)
def test_the_sums_of_the_database_are_those_of_the_attempts(
    one_ledger: tuple[Ledger, Path],
    given_attempts: list[tuple[Attempt, str | None]],
    window: Window,
    keys: tuple[str, ...],
) -> None:
    records = [
        (make_run(f"run-{n}", team=team), (_of(attempt, f"run-{n}"),))
        for n, (attempt, team) in enumerate(given_attempts)
    ]
    ledger, path = one_ledger
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM attempts")
        connection.execute("DELETE FROM runs")
    ledger.import_records(records)
    slices, runs = ledger.cost_slices(CostQuestion(window=window, keys=keys, now=NOW))
    counted = [(run, attempt) for run, (attempt,) in records if attempt.has_run]
    want = sum_usage(attempt_usage(attempt, NOW, window) for _, attempt in counted)
    assert sum_usage(one.tariff.usage(one.held_us) for one in slices) == want
    report = cost_report(window, keys, slices, runs)
    assert report.total.usage == want
    assert sum(row.micro_usd for row in report.rows) == want.micro_usd
    touched = [a for _, a in counted if is_in(a, window)]
    assert (report.total.runs, report.total.attempts) == (len(touched), len(touched))
    uses = [list(uses_of_attempt(attempt, NOW, window)) for _, attempt in counted]
    for use in TimeUse:
        place = USES.index(use)
        want_use = sum_usage(t.usage(us[place]) for parts in uses for t, us in parts)
        assert report.total.gpu_hours(use) == pytest.approx(want_use.gpu_hours)
    for row in report.rows:
        assert sum(row.micro_usd_by_use().values()) == row.micro_usd
        assert sum(row.micro_usd_by_resource().values()) == row.micro_usd
        if keys == ("team",):
            of_team = [a for run, a in counted if (run.team,) == row.keys]
            assert row.usage == sum_usage(attempt_usage(a, NOW, window) for a in of_team)


def is_in(attempt: Attempt, window: Window) -> bool:
    """Did it hold something in the window?"""
    end = attempt.freed_at or NOW
    return max(window.start, attempt.admitted_at) < min(window.end, NOW, end)


def _of(attempt: Attempt, run_id: str) -> Attempt:
    return replace(attempt, flow_run_id=run_id, attempt_id=f"{run_id}/{attempt.number}")


def test_moments_to_the_microsecond_on_every_database(ledger: Ledger) -> None:
    odd = timedelta(microseconds=123_457)
    attempt = make_attempt(
        gpu_quantity=Fraction(1, 7), price_source="p", admitted_at=NOON + odd, released_at=at(1)
    )
    ledger.import_records([(make_run(), (attempt,))])
    asked = CostQuestion(window=Window(at(-1), at(2)), keys=("team", "gpu_type"), now=NOW)
    (part,), runs = ledger.cost_slices(asked)
    assert (part.keys, part.attempts) == (("vision", "a10g"), 1)
    assert part.tariff.usage(part.held_us) == attempt_usage(attempt, NOW)
    assert runs == {("vision", "a10g"): 1, (): 1}


def test_uses_of_time_are_summed_on_every_database(ledger: Ledger) -> None:
    """Ten minutes on the node, five of restart, work to the checkpoint, and the rest is lost."""
    second = make_attempt(
        number=2, gpu_quantity=Fraction(1), price_source="p", admitted_at=at(0),
        started_at=at(1 / 6), first_step_at=at(1 / 4), checkpointed_at=at(1), released_at=at(2),
        end_reason=EndReason.PREEMPTED,
    )  # fmt: skip
    ledger.import_records([(make_run(), (second,))])
    for window, want_us in [
        (Window(at(-1), at(3)), (600_000_000, 300_000_000, 2_700_000_000, 3_600_000_000)),
        (Window(at(1 / 12), at(1.5)), (300_000_000, 300_000_000, 2_700_000_000, 1_800_000_000)),
    ]:
        asked = CostQuestion(window=window, keys=("attempt",), now=NOW)
        (part,), _ = ledger.cost_slices(asked)
        assert (part.keys, part.uses_us) == ((2,), want_us)


@pytest.mark.parametrize(
    ("start", "end", "keys", "want"),
    [
        pytest.param(0, 3, (), {(): 2}, id="all"),
        pytest.param(0, 3, ("team",), {("vision",): 2, (): 2}, id="a key of runs"),
        pytest.param(0, 3, ("zone",), {(None,): 1, ("z",): 2, (): 2}, id="in two groups"),
        pytest.param(0, 3, ("attempt",), {(1,): 2, (2,): 1, (3,): 1, (): 2}, id="by number"),
        pytest.param(1, 3, ("zone",), {(None,): 1, ("z",): 1, (): 1}, id="the first was before"),
        pytest.param(0, 3, ("run",), {(): 2}, id="by run only all are counted"),
    ],
)
def test_a_run_counts_once_in_each_group_and_in_all(
    ledger: Ledger, start: float, end: float, keys: tuple[str, ...], want: dict[Keys, int]
) -> None:
    """Three attempts of a run, the second one in no known zone; and a run with one."""
    over = EndReason.PREEMPTED
    attempts_of_run = [
        make_attempt(
            number=n + 1, admitted_at=at(n), released_at=at(n + 1), end_reason=over, zone=zone
        )
        for n, zone in enumerate(("z", None, "z"))
    ]
    other = make_attempt("run-2", released_at=at(1), end_reason=over, zone="z")
    ledger.import_records([(make_run(), attempts_of_run), (make_run("run-2"), [other])])
    _, found = ledger.cost_slices(
        CostQuestion(window=Window(at(start), at(end)), keys=keys, now=NOW)
    )
    assert found == want


@pytest.mark.parametrize(
    ("window", "want_hours"),
    [
        pytest.param(Window(at(0), at(3)), 1, id="until its GPUs were free"),
        pytest.param(Window(at(1), at(3)), None, id="nothing after that"),
    ],
)
def test_an_end_that_is_still_to_be_judged_costs_nothing_more(
    ledger: Ledger, window: Window, want_hours: int | None
) -> None:
    """Prefect was away for two hours when the process ended: its GPUs were another run's."""
    admit(ledger, make_attempt(gpu_quantity=Fraction(1), price_source="p", started_at=at(0)))
    ledger.note_gone("run-1/1", at(1), None)
    slices, runs = ledger.cost_slices(CostQuestion(window=window, keys=("team",), now=NOW))
    report = cost_report(window, ("team",), slices, runs)
    if want_hours is None:
        assert (report.rows, report.runs) == ((), 0)
        return
    assert report.total.micro_usd == want_hours * 1_000_000
    assert report.total.gpu_hours(TimeUse.USEFUL) == want_hours


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({}, 1, id="measured runs of all pools"),
        pytest.param({"pool": "gpus"}, 1, id="of one pool"),
        pytest.param({"pool": "other"}, 0, id="of a pool without runs"),
        pytest.param({"provenance": None}, 2, id="generated runs too"),
    ],
)
def test_which_runs_count(tmp_path: Path, fields: dict[str, object], want: int) -> None:
    records = [
        (make_run("run-1"), (make_attempt("run-1", gpu_quantity=Fraction(1)),)),
        (make_run("run-2", provenance=Provenance.GENERATED), (make_attempt("run-2"),)),
    ]
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        ledger.import_records(records)
        asked = CostQuestion(window=Window(at(0), at(1)), keys=("run",), now=NOW, **fields)
        slices, runs = ledger.cost_slices(asked)
    assert (len(slices), runs.get((), 0)) == (want, want)


@pytest.mark.parametrize(
    ("column", "value", "want_usage"),
    [
        pytest.param("gpu_ids", "[", Usage(unpriced_us=US_PER_HOUR), id="which GPUs it held"),
        pytest.param(
            "price_micro_usd_per_gpu_hour",
            "cheap",
            Usage(gpu_us=2 * US_PER_HOUR, unpriced_gpu_us=2 * US_PER_HOUR),
            id="its price",
        ),
    ],
)
def test_what_cannot_be_read_is_named_and_the_other_attempts_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, column: str, value: str, want_usage: Usage
) -> None:
    path = tmp_path / "ledger.db"
    records = [
        (make_run(run), (make_attempt(run, gpu_ids=("0", "1"), released_at=at(1)),))
        for run in ("run-1", "run-2")
    ]
    statement = f"UPDATE attempts SET {column} = ? WHERE flow_run_id = 'run-2'"  # noqa: S608 - a name of this test
    with Ledger.open(f"sqlite:///{path}") as ledger:
        ledger.import_records(records)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement, (value,))
        asked = CostQuestion(window=Window(at(0), at(1)), keys=("run",), now=NOW)
        slices, _ = ledger.cost_slices(asked)
    found = {part.keys: part.tariff.usage(part.held_us) for part in slices}
    assert found == {("run-1",): attempt_usage(records[0][1][0], NOW), ("run-2",): want_usage}
    assert f"of an attempt from the ledger: {value}" in caplog.text
