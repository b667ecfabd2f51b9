"""Run time and lateness by deployment: which runs count, percentiles, and the page."""

from base64 import b64decode
from datetime import timedelta
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.costs.reports.run_durations import (
    deployment_durations,
    durations_markdown,
    percentiles,
)
from gpu_core.testing.builders.attempts import NOON, make_attempt, make_run

NOW = NOON + timedelta(days=30)


def run(number=1, late_s=10, took_s=60, ended_days_ago=1.0, deployment="train/gpu", **fields):
    """A completed run with one attempt."""
    end = NOW - timedelta(days=ended_days_ago)
    start = end - timedelta(seconds=took_s)
    submitted = start - timedelta(seconds=late_s)
    record = make_run(
        f"run {number}",
        **{
            "deployment": deployment,
            "submitted_at": submitted,
            "final_state": "Completed",
            **fields,
        },
    )
    return record, (make_attempt(started_at=start, released_at=end, admitted_at=start),)


def test_the_parts_of_a_run_count_and_not_the_waits_between():
    record, (first,) = run(took_s=60, late_s=5, ended_days_ago=2)
    later = first.released_at + timedelta(hours=5)
    second = make_attempt(
        number=2, admitted_at=later, started_at=later, released_at=later + timedelta(seconds=40)
    )
    (found,) = deployment_durations([(record, (first, second))], NOW)
    assert (found.run_time_s[0], found.lateness_s[0], found.runs) == (100.0, 5.0, 1)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(run(deployment=None), id="no deployment"),
        pytest.param(run(final_state=None), id="not over"),
        pytest.param(run(ended_days_ago=30), id="older"),
        pytest.param(run(ended_days_ago=-1), id="it ends after now"),
        pytest.param((run()[0], ()), id="no attempt"),
        pytest.param((run()[0], (make_attempt(released_at=NOON),)), id="never started"),
    ],
)
def test_which_runs_do_not_count(record):
    assert deployment_durations([record], NOW) == ()


def test_deployments_with_long_runs_come_first():
    found = deployment_durations(
        [run(1, took_s=5, deployment="b/x"), run(2, took_s=9, deployment="c/x"),
         run(3, took_s=5, deployment="a/x")], NOW,
    )  # fmt: skip
    assert [each.deployment for each in found] == ["c/x", "a/x", "b/x"]


def test_a_start_before_its_schedule_is_not_late():
    (found,) = deployment_durations([run(late_s=-20)], NOW)
    assert set(found.lateness_s) == {0.0}


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200))
def test_percentiles_are_values_that_enough_do_not_exceed(values):
    """The smallest such value."""
    for percent, value in zip((50, 75, 90, 95, 99), percentiles(values), strict=True):
        assert value in values
        assert 100 * sum(each <= value for each in values) >= percent * len(values)
        assert 100 * sum(each < value for each in values) < percent * len(values)


def test_the_page_has_a_plot_and_both_tables():
    records = [run(number, took_s=60 * number, late_s=number) for number in range(1, 101)]
    page = durations_markdown(deployment_durations(records, NOW))
    assert "| train/gpu | 100 | 50m 00s | 1h 15m | 1h 30m | 1h 35m | 1h 39m |" in page
    assert "| train/gpu | 100 | 50s | 1m 15s | 1m 30s | 1m 35s | 1m 39s |" in page
    assert "![p50 to p99: train/gpu: 50m 00s to 1h 39m](data:image/svg+xml;base64," in page


def test_a_name_breaks_neither_the_picture_nor_the_table():
    name = 'a|b]"<script>&/x'
    page = durations_markdown(deployment_durations([run(deployment=name)], NOW))
    picture = page.partition("base64,")[2].partition(")")[0]
    svg = b64decode(picture).decode()
    assert ElementTree.fromstring(svg).tag.endswith("svg")  # noqa: S314 - our own picture
    assert "<script>" not in svg
    assert r"a\|b" in page


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("train-digits/research", ">train-digits/research<", id="whole"),
        pytest.param("train-resnet-50/" + "x" * 20, ">…t-50/xxxxxxxxxxxxxxxxxxxx<", id="cut"),
    ],
)
def test_the_plot_shows_a_name_whole_or_says_that_it_is_cut(name, want):
    page = durations_markdown(deployment_durations([run(deployment=name)], NOW))
    svg = b64decode(page.partition("base64,")[2].partition(")")[0]).decode()
    assert want in svg


def test_without_runs_it_says_so():
    assert "No completed deployment runs found in this period." in durations_markdown(())
