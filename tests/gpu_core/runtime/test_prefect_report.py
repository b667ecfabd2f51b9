"""Checkpoint reports through Prefect: they stop no work, the newest goes first, none is fatal."""

import threading
from dataclasses import replace

from gpu_core.adapters.files.run_files import CheckpointReport, checkpoint_report_of
from gpu_core.decisions.checkpoints.report_labels import from_labels
from gpu_core.runtime import Ranks
from gpu_core.runtime.prefect_report import PrefectReport, prefect_report_of
from gpu_core.runtime.progress import Progress
from gpu_core.testing.builders.attempts import NOON


def report(sequence):
    return CheckpointReport(
        attempt_id="a", checkpoint=f"run/1-{sequence}", sequence=sequence, saved_at=NOON
    )


class Server:
    """Receives labels, when it is let to."""

    def __init__(self, is_open=True):
        self.gate = threading.Event()
        self.received = []
        if is_open:
            self.gate.set()

    def __call__(self, _flow_run_id, labels):
        assert self.gate.wait(240)
        self.received.append(labels)


def test_a_report_arrives_as_it_was_sent():
    server = Server()
    reported = PrefectReport("run", server)
    reported.publish(report(1))
    reported.close()
    values = from_labels(server.received[-1], "a")
    assert values is not None
    assert checkpoint_report_of(values) == report(1)


def test_another_attempts_report_is_not_this_ones():
    server = Server()
    reported = PrefectReport("run", server)
    reported.publish(report(1))
    reported.close()
    assert from_labels(server.received[-1], "b") is None


def test_a_slow_server_gets_the_newest_report_and_delays_no_run():
    server = Server(is_open=False)
    reported = PrefectReport("run", server)
    for sequence in range(100):
        reported.publish(report(sequence))
    server.gate.set()
    reported.close()
    assert server.received[-1]["prefect-gpu.checkpoint.sequence"] == 99
    assert len(server.received) <= 3


def test_a_progress_that_cannot_be_read_stops_no_training_and_no_checkpoints_report(caplog):
    def fails():
        raise OSError("the folder is gone")

    server = Server()
    reported = PrefectReport("run", server)
    reported.follow(fails)
    reported.publish(report(1))
    reported.close()
    reported.unfollow()
    assert [each["prefect-gpu.checkpoint.sequence"] for each in server.received] == [1]
    assert "the folder is gone" in caplog.text


def test_a_server_that_refuses_is_only_a_warning(caplog):
    def refuse(_flow_run_id, _labels):
        raise OSError("no route")

    reported = PrefectReport("run", refuse)
    reported.publish(report(1))
    reported.close()
    assert "no route" in caplog.text


def steps_in(labels):
    return labels.get("prefect-gpu.progress.steps"), labels.get("prefect-gpu.progress.phase")


def test_steps_are_reported_though_none_is_made_and_for_the_last_time_at_the_end(start_attempt):
    """A checkpoint goes the same way, and no label of either is lost."""
    sent, third = [], threading.Event()

    def send(_flow_run_id, labels):
        sent.append(labels)
        if len(sent) >= 3:
            third.set()

    reported = PrefectReport("run", send, every_s=0.01)
    with Progress(start_attempt(1), Ranks(), prefect=reported) as progress:
        for _ in range(4):
            progress.step()
        reported.publish(report(1))
        assert third.wait(240)
    assert steps_in(sent[-1]) == (4, "ended")
    assert any(labels.get("prefect-gpu.checkpoint.sequence") == 1 for labels in sent)
    assert all("prefect-gpu.progress.reported_at" in labels for labels in sent)


def test_a_run_that_shares_no_folder_reports(start_attempt):
    run = replace(start_attempt(1), reports_to_prefect=True)
    assert prefect_report_of(run) is not None
    assert prefect_report_of(replace(run, reports_to_prefect=False)) is None
    assert prefect_report_of(None) is None


def test_a_rank_of_another_pod_that_makes_steps_sends_nothing(start_attempt):
    """Not even its end, so that it opens no connection."""
    server = Server()
    reported = PrefectReport("run", server)
    ranks = Ranks(rank=1, count=2)
    with Progress(start_attempt(1), ranks, prefect=reported) as progress:
        progress.step()
    assert server.received == []
