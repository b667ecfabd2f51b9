"""The published queue: the CLI reads what the worker writes."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prefect.server.schemas.core import Artifact

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.reasons import Explanation, Reason
from gpu_core.decisions.scheduling.queue.queue_table import (
    QueueTableEntry,
    artifact_key,
    from_row,
    notices_in,
    notices_metadata,
    queue_markdown,
    table_entries,
    to_json,
    to_row,
)
from gpu_core.testing.builders.workloads import NOW, ago, make_workload

moments = st.datetimes(
    min_value=datetime(2000, 1, 1),  # noqa: DTZ001 - Hypothesis adds the zone
    timezones=st.just(UTC),
).map(lambda moment: moment.replace(microsecond=0))
maybe_moments = st.none() | moments
FIELDS_WITH_TEXT = ("run", "run_id", "queue", "team", "reason", "summary", "resolution")
printable = st.text(st.characters(categories=["L", "N", "P", "S"]))
entries = st.builds(
    QueueTableEntry,
    **dict.fromkeys(FIELDS_WITH_TEXT, printable),
    expected_start_at=maybe_moments,
    expected_start_from=maybe_moments,
    expected_start_until=maybe_moments,
    waiting_since=moments,
)


def entry(**changes):
    explanation = Explanation(
        workload_id="w",
        reason=Reason.WAITING_FOR_GPUS,
        summary="Waiting for 2 GPUs.",
        resolution="It starts when they are free.",
        position=1,
        expected_start_at=NOW,
        **changes,
    )
    workload = make_workload(
        "w", gpus=2, name="train", queue="medium", team="vision", submitted_at=ago(300)
    )
    (made,) = table_entries([explanation], {"w": workload})
    return made


def test_an_entry_says_who_waits_for_what_and_since_when():
    """With what the planner said."""
    assert to_row(entry(expected_start_from=ago(60))) == {
        "Position": 1,
        "Run": "train",
        "Queue": "medium",
        "Team": "vision",
        "GPUs": 2,
        "Priority": 1_000,
        "Waiting since": "2026-09-01T11:55:00Z",
        "Reason": "WaitingForGpus",
        "Why": "Waiting for 2 GPUs.",
        "What would help": "It starts when they are free.",
        "Expected start": "2026-09-01T12:00:00Z",
        "From": "2026-09-01T11:59:00Z",
        "Until": None,
        "Run id": "w",
    }


def test_the_page_of_a_queue_links_to_the_runs_that_wait():
    page = queue_markdown([replace(entry(expected_start_from=ago(60)), run="a|b")])
    assert page.splitlines()[-1] == (
        r"| 1 | [a\|b](/runs/flow-run/w) | WaitingForGpus | 2 | 2026-09-01 11:55 | 12:00 | vision |"
    )
    assert queue_markdown([entry()] * 21).endswith("and 1 more")
    assert queue_markdown([]) == "No runs are waiting for GPUs."


def test_automations_get_the_names_of_the_fields():
    """They do not change with the headings."""
    assert set(to_json(entry())) == set(QueueTableEntry.__slots__)


@given(entries)
def test_what_is_published_is_what_is_read(line_entry):
    """Through JSON, as Prefect keeps it."""
    assert from_row(json.loads(json.dumps(to_row(line_entry)))) == line_entry


@given(st.dictionaries(st.sampled_from(FIELDS_WITH_TEXT), st.text(st.characters())))
def test_every_text_becomes_one_that_a_database_takes(texts):
    """Control characters and halves of characters, which one run would lose the table for all."""
    row = to_row(replace(entry(), **texts))
    for value in row.values():
        assert not isinstance(value, str) or value.isprintable()
        str(value).encode()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        pytest.param("Position", "–", id="a position of another version"),
        pytest.param("GPUs", True, id="no number"),
        pytest.param("Run id", None, id="no id"),
        pytest.param("Waiting since", "5m", id="no moment"),
        pytest.param("Until", 12, id="no text"),
    ],
)
def test_a_row_of_another_version_is_refused_by_its_column(column, value):
    """Rather than shown wrong."""
    with pytest.raises(InvalidInput, match=f"queue.{column} cannot be read"):
        from_row(to_row(entry()) | {column: value})


def test_the_line_of_a_pool_has_a_key_that_prefect_accepts():
    """Lower case letters, digits and dashes."""
    assert artifact_key("GPU pool_1") == "gpu-queue-gpu-pool-1"


@given(notices=st.lists(st.text(max_size=1_500), max_size=3))
def test_notices_of_any_length_are_read_back_from_what_prefect_keeps(notices: list[str]) -> None:
    """Prefect cuts a value of the metadata off after 500 characters."""
    kept = Artifact(key="gpu-queue-gpu", metadata_=notices_metadata(notices)).metadata_
    assert notices_in(kept) == tuple(notices)


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param(None, id="none"),
        pytest.param({}, id="empty"),
        pytest.param({"notices": '["cut o...'}, id="of a version that did not divide it"),
        pytest.param({"notices": '"text"'}, id="no list"),
        pytest.param({"notices.1": '["x"]'}, id="no first part"),
    ],
)
def test_metadata_without_notices_has_none(metadata: dict[str, str] | None) -> None:
    assert notices_in(metadata) == ()
