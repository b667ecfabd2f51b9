"""What a run in a pod reports of its steps, from one side to the other."""

import json
from dataclasses import asdict, replace
from datetime import timedelta

import pytest

from gpu_core.adapters.files.progress_report import ProgressReport, progress_report_of
from gpu_core.decisions.checkpoints.progress_labels import (
    LATE,
    LONGEST_STACK,
    MOST_PODS,
    MOST_RANKS,
    SHORTEST_STACK,
    no_pod_labels,
    pod_labels,
    progress_labels,
    progress_values,
    stacks_in,
)
from gpu_core.decisions.telemetry.stacks import innermost_frames
from gpu_core.testing.builders.workloads import NOW, ago

REPORT = ProgressReport(
    attempt_id="a", pid=7, steps=12, progressed_at=ago(90), median_step_s=2.5, phase="saving"
)


def arrived(labels, now=NOW, attempt_id="a"):
    values = progress_values(labels, attempt_id, now)
    return progress_report_of(values[0]) if values else None


def test_a_report_arrives_as_it_was_sent():
    assert arrived(progress_labels(asdict(REPORT), NOW)) == REPORT


def test_what_is_unknown_now_replaces_what_was_known_before():
    before = progress_labels(asdict(REPORT), ago(60))
    later = replace(REPORT, phase=None, median_step_s=None)
    assert arrived(before | progress_labels(asdict(later), NOW)) == later


@pytest.mark.parametrize("ahead_s", [-100, 100], ids=["behind", "ahead"])
def test_a_clock_that_is_wrong_makes_no_run_hang(ahead_s):
    wrong = timedelta(seconds=ahead_s)
    report = replace(REPORT, progressed_at=REPORT.progressed_at + wrong)
    assert arrived(progress_labels(asdict(report), NOW + wrong)).progressed_at == ago(90)


@pytest.mark.parametrize(
    ("labels", "attempt_id"),
    [
        pytest.param(progress_labels(asdict(REPORT), NOW - 2 * LATE), "a", id="late"),
        pytest.param(progress_labels(asdict(REPORT), NOW), "b", id="of another attempt"),
        pytest.param({}, "a", id="none"),
        pytest.param(
            progress_labels(asdict(REPORT), NOW) | {"prefect-gpu.progress.reported_at": "noon"},
            *("a",),
            id="no moment",
        ),
        pytest.param(
            progress_labels(asdict(REPORT), NOW) | {"prefect-gpu.progress.progressed_at": 3},
            *("a",),
            id="a number for a moment",
        ),
        pytest.param(
            progress_labels(asdict(REPORT), NOW)
            | {"prefect-gpu.progress.progressed_at": "2026-09-01T12:00:00"},
            *("a",),
            id="a moment without a zone",
        ),
        pytest.param(
            progress_labels(asdict(REPORT), NOW) | {"prefect-gpu.progress.steps": "many"},
            *("a",),
            id="steps that are no number",
        ),
    ],
)
def test_what_is_late_or_cannot_be_understood_is_unknown(labels, attempt_id):
    assert arrived(labels, attempt_id=attempt_id) is None


PEER = replace(REPORT, rank=3, ranks=8, steps=11, phase=None, gpu_id="GPU-d", pid=9)
PEERS, STACKS = "prefect-gpu.progress.peers", "prefect-gpu.progress.stacks"


def test_the_first_rank_sends_the_reports_and_stacks_of_the_ranks_in_its_pod():
    labels = progress_labels(asdict(REPORT), NOW, [asdict(PEER)], {0: "in wait", 3: "in load"})
    found = progress_values(labels, "a", NOW)
    assert [progress_report_of(each) for each in found] == [REPORT, PEER]
    assert stacks_in(labels, "a", NOW) == {0: "in wait", 3: "in load"}
    assert stacks_in(labels, "b", NOW) == {}, "another attempt's"
    assert stacks_in(labels, "a", NOW + LATE + timedelta(seconds=1)) == {}
    later = labels | progress_labels(asdict(REPORT), NOW)
    assert (len(progress_values(later, "a", NOW)), stacks_in(later, "a", NOW)) == (1, {})


def test_labels_are_bounded():
    peers = [asdict(replace(PEER, rank=rank)) for rank in range(1, 100)]
    stacks = {rank: str(rank) + "x" * 100_000 for rank in range(100)}
    labels = progress_labels(asdict(REPORT), NOW, peers, stacks)
    assert sum(len(str(value)) for value in labels.values()) < 2 * MOST_RANKS * LONGEST_STACK
    assert len(progress_values(labels, "a", NOW)) == MOST_RANKS + 1
    found = stacks_in(labels, "a", NOW)
    assert len(found) == MOST_RANKS
    assert all(text.startswith(str(rank)) for rank, text in found.items()), "the start counts"
    pods = {}
    for pod in range(1, 400):
        ranks = [asdict(replace(PEER, rank=8 * pod + rank)) for rank in range(30)]
        sent = pod_labels(ranks, NOW, {each["rank"]: "x" * 10**5 for each in ranks})
        assert len(str(sent)) < 2 * MOST_RANKS * LONGEST_STACK
        pods |= sent
    assert len(progress_values(labels | pods, "a", NOW)) <= (MOST_PODS + 1) * MOST_RANKS + 1


FRAME = f'  File "/opt/venv/lib/python3.11/site-packages/{"x" * 40}.py", line 2806 in all_reduce'


@pytest.mark.parametrize(
    ("ranks", "most_bytes", "shortest"),
    [
        pytest.param(16, 50_000, LONGEST_STACK, id="two nodes"),
        pytest.param(128, 350_000, LONGEST_STACK, id="16 nodes"),
        pytest.param(512, 600_000, SHORTEST_STACK, id="64 nodes"),
    ],
)
def test_the_labels_of_all_pods_of_a_gang_that_hangs_are_bounded(ranks, most_bytes, shortest):
    stack = "\n".join(["Thread 0x00007f5d8c7e2740 (most recent call first):", *[FRAME] * 100])
    labels = {}
    for pod in range(ranks // 8):
        of_pod = [replace(PEER, rank=8 * pod + place, ranks=ranks) for place in range(8)]
        first, *others = reports = [asdict(each) for each in of_pod]
        stacks = {each.rank: stack for each in of_pod}
        if pod:
            labels |= pod_labels(reports, NOW, stacks)
        else:
            labels |= progress_labels(first, NOW, others, stacks)
    assert len(json.dumps(labels)) < most_bytes
    found = stacks_in(labels, "a", NOW)
    assert found.keys() == {*range(ranks)}
    assert min(len(text) for text in found.values()) == shortest
    assert all(len(innermost_frames(text, 6).splitlines()) == 6 for text in found.values())


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", "7", "null", '{"a": 1}', "[[1], 2]", '{"0": 7}', '["x"]'),
        *("[" * 10_000, "x" * 10**6),
    ],
)
def test_peers_and_stacks_that_cannot_be_understood_are_left_out(text):
    labels = progress_labels(asdict(REPORT), NOW) | {PEERS: text, STACKS: text}
    assert [progress_report_of(each) for each in progress_values(labels, "a", NOW)] == [REPORT]
    assert stacks_in(labels, "a", NOW) == {}


def test_the_report_of_a_peer_of_another_attempt_is_left_out():
    labels = progress_labels(asdict(REPORT), NOW, [asdict(replace(PEER, attempt_id="b"))])
    assert len(progress_values(labels, "a", NOW)) == 1


OF_OTHER_POD = replace(PEER, rank=8, ranks=16, node_rank=1)


def other_pod(now=NOW, **changes):
    return pod_labels([asdict(replace(OF_OTHER_POD, **changes))], now, {8: "in all_reduce"})


def test_another_pod_of_the_gang_sends_its_reports_and_stacks_in_a_label_of_its_own():
    first = progress_labels(asdict(REPORT), NOW, stacks={0: "in wait"})
    for labels in (first | other_pod(), other_pod() | first):
        found = [progress_report_of(each) for each in progress_values(labels, "a", NOW)]
        assert found == [REPORT, OF_OTHER_POD]
        assert stacks_in(labels, "a", NOW) == {0: "in wait", 8: "in all_reduce"}
    labels = first | other_pod() | no_pod_labels(asdict(OF_OTHER_POD))
    assert len(progress_values(labels, "a", NOW)) == 1
    assert stacks_in(labels, "a", NOW) == {0: "in wait"}


@pytest.mark.parametrize(
    "of_pod",
    [
        pytest.param(other_pod(NOW - 2 * LATE), id="late"),
        pytest.param(other_pod(attempt_id="b"), id="of another attempt"),
        *(
            pytest.param({"prefect-gpu.progress.pod.8": value}, id=repr(value)[:20])
            for value in ("{", "[]", "7", 7, None, "{}", "[" * 10_000, '{"peers": 7}')
        ),
    ],
)
def test_another_pod_that_is_late_or_cannot_be_understood_is_left_out(of_pod):
    labels = progress_labels(asdict(REPORT), NOW, stacks={0: "in wait"}) | of_pod
    assert len(progress_values(labels, "a", NOW)) == 1
    assert stacks_in(labels, "a", NOW) == {0: "in wait"}


def test_without_the_first_rank_another_pod_says_nothing():
    assert progress_values(other_pod(), "a", NOW) == ()
    assert stacks_in(other_pod(), "a", NOW) == {}
