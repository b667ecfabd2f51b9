"""How attempts end: preempted, failed, killed, cancelled, overdue; and what follows."""

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from gpu_core.decisions.model.attempts import EndReason
from tests.end_to_end.conftest import FLOWS, POLICY, closed, is_alive, processes_of
from tests.support.prefect_stack import ENGINE
from tests.support.waiting import wait_for

SIGNED = POLICY.replace(
    "{interval: 1s}", "{interval: 1s, require_signatures: true, refuse_pickles: true}"
)
KEY = "a-key-of-this-pool-0123456789"


@pytest.fixture
def counting(tmp_path: Path) -> Path:
    """The folder of the counting flow."""
    folder = tmp_path / "counting"
    folder.mkdir()
    return folder


def test_a_preempted_run_saves_gives_way_and_resumes_where_it_was(new_pool, journal, counting):
    """The same flow run goes on from its checkpoint, which is signed; nothing is a failure."""
    pool = new_pool(SIGNED)
    pool.environment["PREFECT_INTEGRATIONS_GPU_CHECKPOINT_SIGNING_KEY"] = KEY
    low = pool.submit(
        pool.deploy(f"{FLOWS}:count_until_released", "low", max_failures=1),
        "patient",
        {"folder": str(counting)},
        gpu_count=8,
        checkpoint_interval="10m",
    )
    pool.start_worker()
    wait_for((counting / "began-1").exists, "the first attempt began")

    urgent = pool.submit(
        pool.deploy(f"{FLOWS}:do_nothing", "critical", **journal.variables(seconds=1)),
        "urgent",
        gpu_count=4,
    )
    pool.wait_until(urgent, "Completed")
    wait_for((counting / "began-2").exists, "the second attempt began")
    (counting / "release").touch()
    pool.wait_until(low, "Completed")
    wait_for(lambda: closed(pool, low, 2), "both attempts are closed")

    first, second = pool.attempts(low)
    assert first.end_reason is EndReason.PREEMPTED
    assert first.preempted_by == urgent
    assert not first.is_charged_failure
    assert second.end_reason is EndReason.COMPLETED
    assert second.restored_from == first.checkpoint is not None
    manifests = [json.loads(path.read_bytes()) for path in pool.folder.rglob(f"{low}/*.json")]
    assert {manifest["flow_run_id"] for manifest in manifests if manifest["signature"]} == {low}
    assert {manifest["format"] for manifest in manifests} == {"plain"}
    # What its starts lose is measured from here.
    assert first.started_at < first.first_step_at < first.checkpointed_at
    assert second.started_at < second.first_step_at < second.released_at
    # The interval never came: it saved because of the notice, and lost at most a few steps.
    assert int((counting / "began-2").read_text()) > 0
    # The urgent run started only when the last process of the preempted one was gone.
    assert pool.attempts(urgent)[0].admitted_at >= first.released_at
    preempted = [
        s for s in pool.states(low) if "'urgent' has a higher priority" in (s["message"] or "")
    ]
    assert preempted[0]["name"] == "Preempted"
    story = pool.call("POST", "/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [low]}}})
    assert "| 8 × a100-80gb |" in story[0]["data"]
    assert "| Preempted |" in story[0]["data"]


def test_a_run_that_keeps_failing_is_tried_a_bounded_number_of_times(pool):
    """Failures of the flow are charged to the run; the last one is final and says so."""
    run = pool.submit(pool.deploy(f"{FLOWS}:fail", **ENGINE), "failing", max_failures=2)
    pool.start_worker()

    wait_for(lambda: closed(pool, run, 2), "two attempts", timeout_s=300)
    pool.wait_until(run, "Failed")

    assert [a.end_reason for a in pool.attempts(run)] == [EndReason.FAILED] * 2
    assert all(attempt.is_charged_failure for attempt in pool.attempts(run))
    assert "the data set is empty" in pool.message(run)


def test_an_attempt_whose_flow_did_not_begin_adds_no_execution_of_its_body(pool, tmp_path):
    """Prefect's engine retries by itself while it is allowed more retries than it counted runs."""
    begin = f"exec {sys.executable} -m prefect flow-run execute"
    command = f"sh -c 'if [ $PREFECT_GPU_ATTEMPT = 2 ]; then exit 1; fi; {begin}'"
    deployment = pool.deploy(f"{FLOWS}:fail_and_note", command=command)
    run = pool.submit(deployment, "failing", {"folder": str(tmp_path)}, max_failures=3)
    pool.start_worker()

    wait_for(lambda: closed(pool, run, 3), "three attempts", timeout_s=300)
    pool.wait_until(run, "Failed")

    assert (tmp_path / "bodies").read_text().split() == ["1", "3"]
    assert [attempt.is_charged_failure for attempt in pool.attempts(run)] == [True] * 3
    assert pool.message(run).startswith("Flow run encountered an exception")


# Null removes what the run would inherit: the worker may have keys.
UNKNOWN_TO_AWS = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_ACCESS_KEY_ID": None,
    "AWS_SECRET_ACCESS_KEY": None,
    "AWS_SESSION_TOKEN": None,
    "AWS_PROFILE": None,
}


def test_what_fails_alike_each_time_is_tried_once_and_says_what_helps(pool, tmp_path):
    """No run holds GPUs three times for a module, a function, a folder or a key that is missing."""
    script = tmp_path / "train.py"
    script.write_text("import no_such_module\n")
    saving = f"{FLOWS}:count_until_released"
    folder, bucket = f"{os.devnull}/checkpoints", "s3://bucket/team"
    cases = {
        "module": (f"{script}:train", {}, "Crashed", "No module named 'no_such_module'. Ensure"),
        "function": (f"{FLOWS}:no_such", {}, "Crashed", "flow 'no_such' was not found in"),
        "folder": (
            saving,
            {"checkpoint_uri": folder, **ENGINE},
            "Failed",
            ". Set `checkpoint_uri` to a",
        ),
        "keys": (
            saving,
            {"checkpoint_uri": bucket, "env": UNKNOWN_TO_AWS, **ENGINE},
            "Failed",
            "Unable to locate credentials. Set AWS_ACCESS_KEY_ID and",
        ),
    }
    runs = {}
    for name, (entrypoint, variables, _, _) in cases.items():
        parameters = {"folder": str(tmp_path)} if entrypoint == saving else {}
        runs[name] = pool.submit(pool.deploy(entrypoint, **variables), name, parameters)
    pool.start_worker()

    for name, (_, _, want_state, want_message) in cases.items():
        run = runs[name]
        wait_for(lambda run=run: closed(pool, run, 1), f"one attempt of {name}", timeout_s=120)
        assert pool.state(run) == want_state
        assert want_message in pool.message(run)
        assert pool.attempts(run)[0].end_message.startswith("Permanent failure: ")
        assert pool.attempts(run)[0].end_message.endswith(". The run is not retried.")

    run = runs["module"]
    wait_for(lambda: said(pool, run, "Attempt 1 ended"), "its end is in its log")
    # Prefect's engine prints the traceback; the worker does not repeat it.
    assert sum("import no_such_module" in text for text in pool.logs(run)) == 1
    assert not said(pool, run, "Last lines of the output")

    # What Prefect's `Retry` does, after a person has corrected the code.
    script.write_text("from prefect import flow\n\n\n@flow\ndef train() -> None:\n    pass\n")
    again = {"type": "SCHEDULED", "name": "AwaitingRetry"}
    pool.call("POST", f"/flow_runs/{run}/set_state", {"state": again})
    pool.wait_until(run, "Completed")


def said(pool, run: str, start: str) -> bool:
    """Does an entry of the run's log begin like this?"""
    return any(text.startswith(start) for text in pool.logs(run))


def test_the_last_lines_of_output_that_nothing_else_explains_are_on_the_page(pool):
    """Prefect's own words for it are an exit code."""
    command = "sh -c 'echo the data set is empty; exit 3'"
    run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing", command=command), "mute", max_failures=1)
    pool.start_worker()

    wait_for(lambda: closed(pool, run, 1), "one attempt")
    assert "exit code 3" in pool.message(run)
    wait_for(
        lambda: said(pool, run, "Last lines of the output:\nthe data set is empty"),
        "its last lines are in its log",
    )


def test_a_run_whose_processes_are_all_killed_is_charged_and_tried_again(pool, journal):
    """Kill -9 of the whole run, as out-of-memory does it."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(seconds=600))
    run = pool.submit(deployment, "killed")
    pool.start_worker()
    wait_for(lambda: len(journal.entries("begin")) == 1, "the first attempt began")

    wait_for(lambda: pool.attempts(run)[0].pid, "its process is written down")
    launcher = pool.attempts(run)[0].pid

    for process in processes_of(run):
        if process.pid != launcher:
            with suppress(psutil.NoSuchProcess):  # the launcher ends the sampler of its GPUs
                process.kill()
    wait_for(lambda: len(journal.entries("begin")) == 2, "the second attempt began")

    first = pool.attempts(run)[0]
    assert first.end_reason is EndReason.CRASHED
    assert first.exit_code == -signal.SIGKILL
    assert first.is_charged_failure


def test_an_attempt_without_its_launcher_leaves_no_process_behind(pool, journal):
    """What a killed launcher leaves is ended before the next attempt starts."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(seconds=600))
    run = pool.submit(deployment, "orphaned")
    pool.start_worker()
    wait_for(lambda: len(journal.entries("begin")) == 1, "the first attempt began")
    wait_for(lambda: pool.attempts(run)[0].pid, "its process is written down")
    launcher = psutil.Process(pool.attempts(run)[0].pid)
    wait_for(lambda: len(processes_of(run)) == 3, "the sampler of its GPUs is there")
    (sampler,) = (p for p in launcher.children() if "attempt_sampler" in " ".join(p.cmdline()))
    orphans = [process for process in processes_of(run) if process != sampler]

    launcher.kill()
    wait_for(lambda: len(journal.entries("begin")) == 2, "the second attempt began")

    assert len(orphans) == 2
    assert not any(is_alive(orphan) for orphan in orphans)
    wait_for(lambda: not is_alive(sampler), "the sampler of its GPUs has missed the launcher")
    first = pool.attempts(run)[0]
    # How it ended was not observed, so it is unknown whether it was the run's fault.
    assert first.end_reason is EndReason.INTERRUPTED
    assert not first.is_charged_failure


def test_a_cancelled_run_ends_and_gives_its_gpus_back(pool, journal, counting):
    """A person cancels a running flow in the UI; a run that waits for its GPUs starts."""
    run = pool.submit(
        pool.deploy(f"{FLOWS}:count_until_released", **ENGINE),
        "cancelled",
        {"folder": str(counting)},
        gpu_count=8,
    )
    pool.start_worker()
    wait_for((counting / "began-1").exists, "it began")
    waiting = pool.submit(
        pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(seconds=0)), "waiting", gpu_count=8
    )

    pool.call("POST", f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING"}})

    pool.wait_until(run, "Cancelled")
    pool.wait_until(waiting, "Completed")
    assert pool.attempts(run)[0].end_reason is EndReason.CANCELLED
    assert not processes_of(run)


def test_a_waiting_run_can_be_cancelled(pool, journal):
    """No process is there to be ended: it is cancelled at once, after a preemption too."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(seconds=600))
    busy = pool.submit(deployment, "busy", gpu_count=8, gpu_priority="high")
    pool.start_worker()
    pool.wait_until(busy, "Running")
    urgent = pool.submit(deployment, "urgent", gpu_count=8, gpu_priority="critical")
    pool.wait_until(urgent, "Running")
    pool.wait_until(busy, "Preempted", "WaitingForGpus")
    wait_for(lambda: pool.run(busy)["infrastructure_pid"] is None, "its process is forgotten")

    pool.kill_worker()  # a worker looks for final states once a minute, and when it starts
    pool.call("POST", f"/flow_runs/{busy}/set_state", {"state": {"type": "CANCELLING"}})
    pool.start_worker()

    pool.wait_until(busy, "Cancelled")
    wait_for(lambda: pool.record(busy).final_state == "Cancelled", "its cost is final")


def test_a_run_over_its_longest_duration_is_ended_for_good(pool, journal):
    """`max_duration` ends the run with a message that says so."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(seconds=600))
    run = pool.submit(deployment, "endless", max_duration="2s")
    pool.start_worker()

    pool.wait_until(run, "Failed")

    assert "maximum duration of 2s" in pool.message(run)
    assert pool.attempts(run)[0].end_reason is EndReason.TIMED_OUT


def test_an_overdue_run_stays_ended_although_its_flow_has_retries_left(pool, journal):
    """Prefect would turn the failure into a retry inside a process that is gone, for ever."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(seconds=600))
    run = pool.submit(deployment, "endless", max_duration="2s")
    policy = {"retries": 3, "retry_delay": 0}
    pool.call("PATCH", f"/flow_runs/{run}", {"empirical_policy": policy})
    pool.start_worker()

    pool.wait_until(run, "Failed")

    assert len(pool.attempts(run)) == 1
