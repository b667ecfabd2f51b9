"""What savings read of a month in few columns is what whole records say."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.month_work import WorkQuestion
from gpu_core.decisions.costs.savings.month_savings import MonthWork
from gpu_core.decisions.costs.usage.usage import sum_usage
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import Attempt, EndReason, RunRecord
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.testing.builders.attempts import at, make_attempt, make_run
from tests.gpu_core.adapters.ledger.test_cost_slices import attempts, moments
from tests.gpu_core.decisions.costs.savings.work import month_work

summaries = st.lists(
    st.builds(
        GpuSummary,
        gpu_id=st.just("0"),
        samples=st.just(1),
        is_simulated=st.booleans(),
        memory_used_max_bytes=st.none() | st.integers(0, 2**40),
    ),
    max_size=2,
)


@st.composite
def records(draw: st.DrawFn) -> list[tuple[RunRecord, tuple[Attempt, ...]]]:
    """Runs with up to three attempts of any kind."""
    found = []
    for run_id in (f"run-{n}" for n in range(draw(st.integers(0, 4)))):
        run = make_run(run_id, deployment=draw(st.sampled_from(["a/a", "b/b", None])))
        of_run = tuple(
            replace(
                draw(attempts()),
                flow_run_id=run_id,
                attempt_id=f"{run_id}/{number}",
                number=number,
                capacity_type=draw(st.sampled_from(["spot", "on-demand"])),
                gpu_summaries=tuple(draw(summaries)) or None,
                settlement=draw(st.sampled_from([None, {"excused_at": at(0).isoformat()}])),
            )
            for number in range(1, draw(st.integers(1, 3)) + 1)
        )
        found.append((run, of_run))
    return found


@settings(deadline=None)
@given(
    given_records=records(),
    window=st.tuples(moments, moments).map(lambda pair: Window(min(pair), max(pair))),
)
def test_few_columns_say_what_whole_records_say(
    one_ledger: tuple[Ledger, Path],
    given_records: list[tuple[RunRecord, tuple[Attempt, ...]]],
    window: Window,
) -> None:
    ledger, path = one_ledger
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM attempts")
        connection.execute("DELETE FROM runs")
    ledger.import_records(given_records)
    found = ledger.month_work(WorkQuestion(window=window))
    assert comparable(found) == comparable(
        month_work(ledger.usage(window.start, window.end), window)
    )


def comparable(work: MonthWork) -> tuple[dict[Any, Any], list[Attempt]]:
    """The work without the order of its parts."""
    of_attempts = {
        (each.flow_run_id, each.number): (
            each.deployment,
            each.gpu_type,
            each.released_us,
            each.is_completed,
            each.memory_mib,
            sum_usage(tariff.usage(held_us) for tariff, held_us in each.paid),
        )
        for each in work.attempts
    }
    return of_attempts, sorted(work.interrupted, key=lambda attempt: attempt.attempt_id)


@pytest.mark.parametrize(
    ("pool", "want"),
    [
        pytest.param(None, {"run-1", "run-2"}, id="all pools"),
        pytest.param("other", {"run-2"}, id="one pool"),
    ],
)
def test_which_runs_count_on_every_database(ledger: Ledger, pool: str, want: set[str]) -> None:
    spot = {"capacity_type": "spot", "end_reason": EndReason.INTERRUPTED, "released_at": at(1)}
    pairs = [
        (make_run("run-1"), (make_attempt("run-1", **spot),)),
        (make_run("run-2", pool="other"), (make_attempt("run-2", pool="other", **spot),)),
        (make_run("run-3"), (make_attempt("run-3", admitted_at=at(30), released_at=at(31)),)),
    ]
    ledger.import_records(pairs)
    work = ledger.month_work(WorkQuestion(window=Window(at(0), at(24)), pool=pool))
    assert {each.flow_run_id for each in work.attempts} == want
    assert {each.flow_run_id for each in work.interrupted} == want
