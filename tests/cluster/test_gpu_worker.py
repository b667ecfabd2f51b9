"""The gpu-kubernetes worker on a real cluster: its runs' lives, as Prefect and the cluster see.

These stories leave the worker, its pool and the server alone: they share them, and what needs no
hand of a test is submitted at the same time.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime

import pytest

from gpu_core.decisions.requests.runs.run_context import RunContext
from tests.cluster.pools import FLOWS, jobs_of, pods_of, settled, shell, working_pool
from tests.support.cluster import Namespace
from tests.support.prefect_stack import Pool
from tests.support.waiting import wait_for

# What each takes half of the node for, so that one of the three waits.
SHARING = ("shares 1", "shares 2", "shares 3")


@pytest.fixture(scope="module")
def _working(cluster, server, tmp_path_factory) -> Iterator[tuple[Pool, Namespace]]:
    with working_pool(cluster, server, tmp_path_factory.mktemp("shared-pool")) as both:
        yield both


@pytest.fixture(scope="module")
def deployment(_working) -> str:
    pool, _ = _working
    return pool.deploy(f"{FLOWS}:do_nothing")


@pytest.fixture(scope="module")
def _submitted(_working, deployment) -> dict[str, str]:
    """The runs of the stories that only look, by name, in the order of their submission."""
    pool, _ = _working
    variables = {
        **dict.fromkeys(SHARING, shell("sleep 4", gpu_count=4)),
        "hello": shell("echo hello from $PREFECT_GPU_ATTEMPT"),
        "told": shell("printenv; echo end of the environment", team="vision", project="maps"),
        "bad": shell("echo no data; exit 3", max_failures=2),
        "large": shell("true", gpu_count=64),
    }
    runs = {name: pool.submit(deployment, name, **each) for name, each in variables.items()}
    return {**runs, "typo": pool.submit(pool.deploy(f"{FLOWS}:no_such_flow"), "typo")}


@pytest.fixture
def pool(_working) -> Iterator[Pool]:
    pool, _ = _working
    yield pool
    pool.print_logs()


@pytest.fixture
def namespace(_working) -> Namespace:
    _, namespace = _working
    return namespace


@pytest.fixture
def run_of(pool, deployment, _submitted) -> Iterator[Callable[..., str]]:
    """The run of this name; with job variables one that is submitted now."""
    asked = []

    def run_of(name: str, **variables: object) -> str:
        is_new = bool(variables)
        asked.append(pool.submit(deployment, name, **variables) if is_new else _submitted[name])
        return asked[-1]

    yield run_of
    pool.print_runs(asked)


def events(namespace, flow_run_id):
    """Type, reason and note of the worker's Events on the Jobs of a run, in order."""
    names = {job["metadata"]["name"] for job in jobs_of(namespace, flow_run_id)}
    found = [
        event
        for event in namespace.get("events.v1.events.k8s.io")["items"]
        if event.get("reportingController") == "prefect-gpu" and event["regarding"]["name"] in names
    ]
    found.sort(key=lambda event: event["eventTime"])
    return [(event["type"], event["reason"], event["note"]) for event in found]


def test_a_container_job_runs_logs_its_output_and_costs(pool, namespace, run_of):
    run = run_of("hello")
    pool.wait_until(run, "Completed", timeout_s=90)
    settled(pool, run)

    (attempt,) = pool.attempts(run)
    assert attempt.end_reason == "Completed"
    assert attempt.exit_code == 0
    assert attempt.price_micro_usd_per_gpu_hour == 1_000_000
    (job,) = jobs_of(namespace, run)
    limits = job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == "1"
    names = [state["name"] for state in pool.states(run)]
    assert names[-2:] == ["Running", "Completed"]
    wait_for(lambda: "hello from 1" in pool.logs(run), "its output is in its log")
    wait_for(
        lambda: (
            [event[:2] for event in events(namespace, run)]
            == [("Normal", "Starting"), ("Normal", "Completed")]
        ),
        f"Events tell its story: {events(namespace, run)}",
    )
    (started, ended) = (note for _, _, note in events(namespace, run))
    node = attempt.held[0].node
    assert started.startswith(f"Attempt 1 starts on 1 × a10g of {node}: "), started
    assert "Cost: $1.00 per hour (on-demand)." in started
    assert ended.startswith("Attempt 1 ended. "), ended
    described = namespace.kubectl("describe", "job", job["metadata"]["name"])
    assert "prefect-gpu" in described.partition("Events:")[2]


def test_what_a_run_reads_about_itself_is_so(pool, namespace, deployment, run_of):
    """Each fact as the run's own process has it, compared with ledger, pod and node."""
    run = run_of("told")
    pool.wait_until(run, "Completed", timeout_s=90)
    settled(pool, run)
    (attempt,) = pool.attempts(run)
    wait_for(
        lambda: "end of the environment" in "\n".join(pool.logs(run)), "its output is in its log"
    )
    lines = (line.partition("=") for text in pool.logs(run) for line in text.splitlines())
    reported = RunContext.from_environment({name: value for name, _, value in lines})
    (pod,) = pods_of(namespace, run)
    node = namespace.get("nodes", pod["spec"]["nodeName"])
    # Its paths are proven by those who write there.
    paths = {"run_dir": None, "checkpoint_uri": None, "notice_file": None}
    assert replace(reported, **paths) == RunContext(
        flow_run_id=run,
        attempt=1,
        attempt_id=attempt.attempt_id,
        name="told",
        gpu_type="a10g",
        checkpoint_interval_s=1,
        checkpoint_interval_adapts=True,
        capacity_since=datetime.fromisoformat(node["metadata"]["creationTimestamp"]),
        grace_s=pod["spec"]["terminationGracePeriodSeconds"],
        team="vision",
        project="maps",
        deployment=f"do_nothing/{pool.call('GET', f'/deployments/{deployment}')['name']}",
    )


def test_a_run_is_over_when_its_own_container_is_whatever_a_sidecar_does(new_pool, namespace):
    """A mesh's proxy, say, goes on for ever."""
    pool = new_pool(sidecar="echo I am a proxy; sleep 600")
    pool.start_worker()
    deployment = pool.deploy(f"{FLOWS}:do_nothing")
    done = pool.submit(deployment, "done", **shell("echo hello from the run"))
    failed = pool.submit(deployment, "failed", max_failures=1, **shell("exit 3"))
    pool.wait_until(done, "Completed", timeout_s=90)
    pool.wait_until(failed, "Failed", timeout_s=90)
    for run, want in ((done, ("Completed", 0)), (failed, ("Failed", 3))):
        settled(pool, run)
        (attempt,) = pool.attempts(run)
        assert (attempt.end_reason, attempt.exit_code) == want
        assert not [p for p in pods_of(namespace, run) if p["status"]["phase"] == "Running"]
    wait_for(lambda: "hello from the run" in pool.logs(done), "its output is in its log")
    assert "I am a proxy" not in pool.logs(done)


def test_a_container_that_fails_is_tried_again_and_then_failed_with_its_last_lines(pool, run_of):
    run = run_of("bad")
    pool.wait_until(run, "Failed", timeout_s=120)
    settled(pool, run)

    first, second = pool.attempts(run)
    assert (first.exit_code, second.exit_code) == (3, 3)
    assert first.is_charged_failure
    assert second.is_charged_failure
    message = pool.message(run)
    assert "Failure 2 of 2" in message
    assert "exit code 3" in message


def test_runs_share_the_gpus_and_the_rest_wait_with_a_reason(pool, run_of):
    runs = [run_of(name) for name in SHARING]
    for run in runs:
        pool.wait_until(run, "Completed", timeout_s=120)
        settled(pool, run)
    waited = [state for run in runs for state in pool.states(run) if state["type"] == "SCHEDULED"]
    assert any("GPU" in (state["message"] or "") for state in waited), "none was told why it waits"
    held = sorted(
        (attempt.admitted_at, attempt.released_at) for run in runs for attempt in pool.attempts(run)
    )
    assert max(sum(a <= at < b for a, b in held) for at, _ in held) <= 2


def test_a_run_that_fits_on_no_node_waits_for_one_and_says_so(pool, run_of):
    run = run_of("large")
    pool.wait_until(run, "ExceedsCluster", timeout_s=90)
    assert pool.run(run)["state"]["type"] == "SCHEDULED"


def test_a_pod_that_is_evicted_goes_on_in_another_attempt(pool, namespace, run_of):
    # Without the trap it would be deaf to SIGTERM, as every first process is, and do all its work.
    script = 'trap "exit 143" TERM; sleep 8 & wait'
    run = run_of("evicted", **shell(script))
    pool.wait_until(run, "Running", timeout_s=90)
    (pod,) = pods_of(namespace, run)
    namespace.evict(pod["metadata"]["name"])
    pool.wait_until(run, "Completed", timeout_s=120)
    settled(pool, run)

    first, second = pool.attempts(run)
    assert first.end_reason == "Interrupted"
    assert not first.is_charged_failure
    assert second.end_reason == "Completed"


def test_a_cancelled_run_ends_and_gives_its_gpus_back(pool, namespace, run_of):
    script = 'trap "exit 143" TERM; sleep 300 & wait'
    run = run_of("cancelled", **shell(script))
    pool.wait_until(run, "Running", timeout_s=90)
    pool.call(
        "POST",
        f"/flow_runs/{run}/set_state",
        {"state": {"type": "CANCELLING", "name": "Cancelling"}},
    )
    pool.wait_until(run, "Cancelled", timeout_s=120)
    settled(pool, run)
    assert not [p for p in pods_of(namespace, run) if p["status"]["phase"] == "Running"]
    (attempt,) = pool.attempts(run)
    assert attempt.end_reason == "Cancelled"
    # Nothing in it learns of it from Prefect: it is informed at once, not when its grace is over.
    stopped_s = (attempt.released_at - attempt.drain_requested_at).total_seconds()
    assert stopped_s < (attempt.drain_deadline_at - attempt.drain_requested_at).total_seconds() / 2


def test_a_flow_that_cannot_be_loaded_says_why_on_its_page(pool, namespace, run_of):
    """Its pod ends well, and Prefect itself says only that a process ended with code 1."""
    run = run_of("typo")
    wait_for(lambda: "Permanent failure" in pool.message(run), "its page says why", timeout_s=240)
    settled(pool, run)

    (pod,) = pods_of(namespace, run)
    assert pod["status"]["phase"] == "Succeeded"
    assert pool.state(run) == "Crashed"
    assert "flow 'no_such_flow' was not found in" in pool.message(run)
    (attempt,) = pool.attempts(run)
    assert (attempt.end_reason, attempt.is_charged_failure) == ("Crashed", True)
    wait_for(
        lambda: any("'no_such_flow' not found" in line for line in pool.logs(run)),
        "the traceback is in its log",
    )


def test_a_container_that_is_done_is_not_run_again_although_its_run_was_set_back(
    pool, namespace, run_of
):
    run = run_of("set back", **shell("sleep 5"))
    pool.wait_until(run, "Running", timeout_s=90)
    back = {"state": {"type": "SCHEDULED", "name": "Scheduled"}, "force": True}
    pool.call("POST", f"/flow_runs/{run}/set_state", back)
    pool.wait_until(run, "Completed", timeout_s=90)
    settled(pool, run)
    (attempt,) = pool.attempts(run)
    assert attempt.end_reason == "Completed"
    assert len(pods_of(namespace, run)) == 1
