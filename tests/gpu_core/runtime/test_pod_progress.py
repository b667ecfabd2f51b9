"""The first rank of a pod reports for all its ranks, and sends stacks where one hangs."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import pytest

from gpu_core.adapters.files.progress_report import (
    ProgressReport,
    progress_report_of,
    stacks_path,
    write_progress_report,
)
from gpu_core.decisions.checkpoints.progress_labels import (
    progress_labels,
    progress_values,
    stacks_in,
)
from gpu_core.runtime.pod_progress import PodProgress
from tests.support.hanging_process import FUNCTION, hanging_process

NOW = datetime.now(UTC)


@pytest.fixture
def pids(tmp_path):
    """Two ranks of attempt `a` in this pod, which hang."""
    with (
        hanging_process("a", stacks_path(tmp_path, 0)) as first,
        hanging_process("a", stacks_path(tmp_path, 1)) as second,
    ):
        yield [first.pid, second.pid]


def reports(folder, pids, quiet_s, first_rank=0, **changes):
    found = [
        ProgressReport(
            attempt_id="a", rank=rank, ranks=8, pid=pid, steps=7, dumps_stacks=True,
            progressed_at=NOW - timedelta(seconds=quiet_s), gpu_id=f"GPU-{rank}", **changes,
        )
        for rank, pid in enumerate(pids, first_rank)
    ]  # fmt: skip
    for report in found:
        write_progress_report(folder, report)
    return found


def test_ranks_that_hang_are_reported_with_their_stacks(tmp_path, pids):
    sent = reports(tmp_path, pids, quiet_s=130)
    pod = PodProgress(tmp_path)
    labels = pod.labels(sent[0], NOW)
    assert [progress_report_of(each) for each in progress_values(labels, "a", NOW)] == sent
    stacks = stacks_in(labels, "a", NOW)
    assert sorted(stacks) == [0, 1]
    assert all(f"in {FUNCTION}" in text for text in stacks.values())
    written = stacks_path(tmp_path, 0).read_text()
    assert stacks_in(pod.labels(sent[0], NOW), "a", NOW) == stacks
    assert stacks_path(tmp_path, 0).read_text() == written, "they are taken once"
    again = reports(tmp_path, pids, quiet_s=1)
    assert stacks_in(pod.labels(again[0], NOW), "a", NOW) == {}


@pytest.mark.parametrize(
    ("quiet_s", "changes"),
    [
        pytest.param(100, {}, id="a pause"),
        pytest.param(1000, {"phase": "saving"}, id="it saves"),
        pytest.param(9000, {"phase": "ended"}, id="its loop is over"),
        pytest.param(400, {"median_step_s": 100.0}, id="its steps take as long"),
    ],
)
def test_ranks_that_work_are_asked_for_no_stacks(tmp_path, pids, quiet_s, changes):
    sent = reports(tmp_path, pids, quiet_s, **changes)
    labels = PodProgress(tmp_path).labels(sent[0], NOW)
    assert len(progress_values(labels, "a", NOW)) == 2
    assert stacks_in(labels, "a", NOW) == {}
    assert stacks_path(tmp_path, 0).read_text() == ""


def test_without_a_folder_it_speaks_for_itself():
    own = ProgressReport(attempt_id="a", ranks=8, pid=1, progressed_at=NOW - timedelta(hours=1))
    labels = PodProgress(None).labels(own, NOW)
    assert [progress_report_of(each) for each in progress_values(labels, "a", NOW)] == [own]


def first_rank():
    return progress_labels(asdict(ProgressReport(attempt_id="a", pid=1, progressed_at=NOW)), NOW)


def test_the_lowest_rank_of_another_pod_sends_the_stacks_of_its_ranks_while_they_hang(tmp_path):
    with (
        hanging_process("a", stacks_path(tmp_path, 4)) as one,
        hanging_process("a", stacks_path(tmp_path, 5)) as two,
    ):
        pids = [one.pid, two.pid]
        sent = reports(tmp_path, pids, quiet_s=130, first_rank=4, node_rank=1)
        pods = [PodProgress(tmp_path), PodProgress(tmp_path)]
        assert pods[1].labels(sent[1], NOW) == {}, "the lowest speaks for it"
        labels = first_rank() | pods[0].labels(sent[0], NOW)
        _, *found = [progress_report_of(each) for each in progress_values(labels, "a", NOW)]
        assert found == sent
        stacks = stacks_in(labels, "a", NOW)
        assert sorted(stacks) == [4, 5]
        assert all(f"in {FUNCTION}" in text for text in stacks.values())
        again = reports(tmp_path, pids, quiet_s=1, first_rank=4, node_rank=1)
        labels |= pods[0].labels(again[0], NOW)
        assert len(progress_values(labels, "a", NOW)) == 1
        assert pods[0].labels(again[0], NOW) == {}, "it says once that they go on"


@pytest.mark.parametrize(
    ("quiet_s", "changes", "want_reports"),
    [
        pytest.param(59, {}, 0, id="it makes steps"),
        pytest.param(61, {}, 1, id="it may wait for another pod"),
        pytest.param(1000, {"phase": "saving"}, 1, id="it saves, and the others wait for it"),
        pytest.param(9000, {"phase": "ended"}, 0, id="its loop is over"),
    ],
)
def test_when_another_pod_reports(tmp_path, quiet_s, changes, want_reports):
    (own,) = reports(tmp_path, [1], quiet_s, first_rank=4, **changes)
    labels = PodProgress(tmp_path).labels(own, NOW)
    assert len(progress_values(first_rank() | labels, "a", NOW)) == 1 + want_reports
    assert stacks_in(first_rank() | labels, "a", NOW) == {}
