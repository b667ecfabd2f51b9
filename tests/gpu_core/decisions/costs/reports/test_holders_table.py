"""The published holders of a pool's GPUs: the CLI reads what the worker writes."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.costs.reports.holders_table import (
    HoldersTableEntry,
    from_holder_row,
    holder_entry,
    holder_json,
    holders_key,
    holders_markdown,
    to_holder_row,
    without_holder_texts,
)
from gpu_core.decisions.costs.usage.usage_cost import usage_until
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.virtual_nodes import planned_name
from gpu_core.testing.builders.attempts import NOON, make_attempt, make_run

moments = st.datetimes(
    min_value=datetime(2000, 1, 1),  # noqa: DTZ001 - Hypothesis adds the zone
    timezones=st.just(UTC),
).map(lambda moment: moment.replace(microsecond=0))
entries = st.builds(
    HoldersTableEntry,
    **dict.fromkeys(
        ("run", "run_id", "nodes"), st.text(st.characters(categories=["L", "N", "P", "S"]))
    ),
    held_since=moments,
    may_run_until=st.none() | moments,
    must_stop_by=st.none() | moments,
    accrued_at=moments,
    gpus=st.floats(0, 1_000, allow_nan=False),
    queue=st.none(),
    team=st.none() | st.just("vision"),
    gpu_type=st.none() | st.just("t4"),
    ending=st.none() | st.sampled_from([reason.value for reason in EndReason]),
)


def entry(**changes):
    attempt = make_attempt(admitted_at=NOON, released_at=None, **changes)
    return holder_entry(attempt, make_run(), 7_200, NOON + timedelta(minutes=30))


def test_an_entry_says_what_is_held_since_when_at_what_cost_and_until_when():
    attempt = make_attempt(admitted_at=NOON, released_at=None)
    half_hour = usage_until(attempt, NOON + timedelta(minutes=30)).total_micro_usd
    held = entry()
    assert (held.held_since, held.may_run_until) == (NOON, NOON + timedelta(hours=2))
    assert (held.accrued_micro_usd, held.micro_usd_per_hour) == (half_hour, 2 * half_hour)
    assert held.cost_micro_usd(NOON + timedelta(hours=1)) == 2 * half_hour
    assert (held.ending, held.must_stop_by) == (None, None)


def test_what_has_no_price_has_no_cost():
    held = entry(price_micro_usd_per_gpu_hour=None)
    assert held.accrued_micro_usd is None
    assert held.cost_micro_usd(NOON + timedelta(hours=1)) is None


def test_a_clock_that_is_behind_takes_no_cost_away():
    held = entry()
    assert held.cost_micro_usd(NOON) == held.accrued_micro_usd


@pytest.mark.parametrize(
    ("nodes", "want"),
    [
        pytest.param(["n1"], "n1", id="one node"),
        pytest.param(["n1", "n2", "n3", "n4", "n5"], "n1, n2, n3 and 2 more", id="a large gang"),
        pytest.param([planned_name("g5.xlarge", 0)], "a new node of g5.xlarge", id="to come"),
    ],
)
def test_the_nodes_are_named(nodes, want):
    shares = tuple(NodeShare(node=node, gpu_ids=(f"{node}-0",)) for node in nodes)
    assert entry(shares=shares).nodes == want


def test_what_another_scheduler_has_still_to_place_is_on_no_node():
    assert entry(shares=(NodeShare(node="n1", gpu_ids=("0",)),), bound_at=None).nodes == (
        "not placed yet"
    )


@given(entries)
def test_what_is_published_is_what_is_read(held):
    """Through JSON, as Prefect keeps it."""
    assert from_holder_row(json.loads(json.dumps(to_holder_row(held)))) == held


def test_a_row_of_another_version_is_refused_by_its_column():
    with pytest.raises(InvalidInput, match=r"queue\.Held since cannot be read"):
        from_holder_row(to_holder_row(entry()) | {"Held since": 5})


def test_automations_get_the_names_of_the_fields():
    assert set(holder_json(entry())) == set(HoldersTableEntry.__slots__)


def test_a_table_without_texts_has_no_text_of_a_user():
    row = without_holder_texts(to_holder_row(replace(entry(), run="secret", team="secret")))
    assert "secret" not in json.dumps(row)
    assert from_holder_row(row).run == row["Run id"]


def test_markdown_links_to_the_runs_and_keeps_names_harmless():
    page = holders_markdown([replace(entry(), run="a|b](x)<i>", run_id="id", team="[red]")])
    assert r"| a\|b\](x)\<i\> [open](/runs/flow-run/id) |" in page
    assert r"\[red\]" in page
    assert all(line.count(" | ") == 6 for line in page.splitlines() if line.startswith("| "))


def test_markdown_of_many_holders_says_how_many_more():
    page = holders_markdown([entry()] * 25, most_rows=20)
    assert page.count("/runs/flow-run/") == 20
    assert page.endswith("and 5 more")
    assert holders_markdown([]) == "No running flow runs found."


def test_the_holders_of_a_pool_have_a_key_that_prefect_accepts():
    assert holders_key("GPU pool_1") == "gpu-holders-gpu-pool-1"
