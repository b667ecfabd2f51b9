"""Expected starts: learned from waits, kept over restarts."""

from datetime import timedelta

import pytest

from gpu_core.decisions.model.reasons import Explanation, Reason
from gpu_core.testing.builders.workloads import NOW, make_node, make_workload
from gpu_core.worker.pending.forecasts import Forecasts


def later(seconds):
    return NOW + timedelta(seconds=seconds)


def explanations(*ids):
    return [
        Explanation(
            workload_id=key,
            reason=Reason.WAITING_FOR_GPUS,
            summary="",
            resolution="",
            position=position,
        )
        for position, key in enumerate(ids, start=1)
    ]


def looking(path):
    """Forecasts of a pool with one node."""
    forecasts = Forecasts(path)
    forecasts.observe([make_node()])
    return forecasts


def taught(path, waits_s=(600,) * 30):
    """Forecasts that have seen one run after the other wait so long."""
    forecasts = looking(path)
    for number, wait_s in enumerate(waits_s):
        workload = make_workload(f"w{number}")
        seen_at = later(number * 1_000)
        forecasts.with_expected_starts(
            explanations(workload.workload_id), {workload.workload_id: workload}, seen_at
        )
        forecasts.started([workload], seen_at + timedelta(seconds=wait_s))
    return forecasts


def forecast(forecasts):
    (reported,) = forecasts.with_expected_starts(
        explanations("new"), {"new": make_workload("new")}, later(30_000)
    )
    return reported


def test_what_waits_were_long_is_what_is_expected(tmp_path):
    """Thirty waits of ten minutes: the next one is thought to be about as long."""
    reported = forecast(taught(tmp_path / "f.json"))
    waits_s = [
        (moment - later(30_000)).total_seconds()
        for moment in (
            reported.expected_start_from,
            reported.expected_start_at,
            reported.expected_start_until,
        )
    ]
    assert waits_s == sorted(waits_s)
    assert waits_s[0] <= 600 <= waits_s[2]
    assert waits_s[1] == pytest.approx(600, rel=0.1)


def test_nothing_is_said_before_enough_is_learned(tmp_path):
    """Three starts are no experience."""
    reported = forecast(taught(tmp_path / "f.json", waits_s=(600, 600, 600)))
    assert reported == explanations("new")[0]


def test_who_starts_at_once_teaches_nothing_about_waits(tmp_path):
    """No start was ever shown for it."""
    forecasts = looking(tmp_path / "f.json")
    forecasts.started([make_workload(f"w{n}") for n in range(30)], NOW)
    assert forecast(forecasts).expected_start_at is None


def test_a_held_run_has_no_expected_start(tmp_path):
    """It is not in the line."""
    held = Explanation(workload_id="new", reason=Reason.HELD, summary="", resolution="", position=0)
    (reported,) = taught(tmp_path / "f.json").with_expected_starts(
        [held], {"new": make_workload("new")}, NOW
    )
    assert reported == held


def test_what_was_learned_outlives_the_worker(tmp_path):
    """The next one's first forecast is as good as the last one's, but for the last hour's rate."""
    path = tmp_path / "missing" / "f.json"
    forecasts = taught(path)
    forecasts.save()
    assert forecast(looking(path)).expected_start_until is not None


def test_nothing_is_written_where_nothing_was_learned(tmp_path):
    """A cycle in which no run starts costs no write."""
    looking(tmp_path / "f.json").save()
    assert not (tmp_path / "f.json").exists()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("{", id="no JSON"),
        pytest.param("[]", id="no mapping"),
        pytest.param('{"a100-80gb": {"version": 9}}', id="another version"),
        pytest.param('{"a100-80gb": 3}', id="no state"),
    ],
)
def test_a_state_that_cannot_be_read_is_learned_anew(tmp_path, content):
    """A worker starts whatever lies there."""
    path = tmp_path / "f.json"
    path.write_text(content)
    assert forecast(looking(path)).expected_start_at is None
