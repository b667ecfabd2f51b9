"""The gpu-kubernetes worker on a real cluster: its runs' lives, as Prefect and the cluster see."""

from dataclasses import replace
from datetime import datetime

import pytest

from gpu_core.decisions.requests.runs.run_context import RunContext
from tests.cluster.pools import FLOWS, JOURNALED_RUN, POLICY
from tests.support.admission_webhook import NAME, denying
from tests.support.cluster import KubectlFailed
from tests.support.run_journal import faults_of_lives, read_lives
from tests.support.waiting import wait_for


def shell(script, **variables):
    """The job variables of a container job that runs this script."""
    return {"container_command": f"/bin/sh -c '{script}'", **variables}


@pytest.fixture
def pool(new_pool):
    pool = new_pool()
    pool.start_worker()
    return pool


def jobs(namespace, flow_run_id):
    """The Jobs of a run, as the cluster has them."""
    return namespace.get("jobs", f"--selector=prefect-gpu.dev/flow-run-id={flow_run_id}")["items"]


def pods(namespace, flow_run_id):
    return namespace.get("pods", f"--selector=prefect-gpu.dev/flow-run-id={flow_run_id}")["items"]


def events(namespace, flow_run_id):
    """Type, reason and note of the worker's Events on the Jobs of a run, in order."""
    names = {job["metadata"]["name"] for job in jobs(namespace, flow_run_id)}
    found = [
        event
        for event in namespace.get("events.v1.events.k8s.io")["items"]
        if event.get("reportingController") == "prefect-gpu" and event["regarding"]["name"] in names
    ]
    found.sort(key=lambda event: event["eventTime"])
    return [(event["type"], event["reason"], event["note"]) for event in found]


def settled(pool, flow_run_id):
    """Wait until the ledger has the end of the run's last attempt; Prefect may know it before."""
    wait_for(
        lambda: all(attempt.released_at for attempt in pool.attempts(flow_run_id)),
        "its last attempt is settled",
    )


def test_a_container_job_runs_logs_its_output_and_costs(pool, namespace):
    run = pool.submit(
        pool.deploy(f"{FLOWS}:do_nothing"), "hello", **shell("echo hello from $PREFECT_GPU_ATTEMPT")
    )
    pool.wait_until(run, "Completed", timeout_s=90)
    settled(pool, run)

    (attempt,) = pool.attempts(run)
    assert attempt.end_reason == "Completed"
    assert attempt.exit_code == 0
    assert attempt.price_micro_usd_per_gpu_hour == 1_000_000
    (job,) = jobs(namespace, run)
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
    assert "It costs $1.00 an hour (on-demand)." in started
    assert ended.startswith("Attempt 1 ended. "), ended
    described = namespace.kubectl("describe", "job", job["metadata"]["name"])
    assert "prefect-gpu" in described.partition("Events:")[2]


def test_what_a_run_reads_about_itself_is_so(pool, namespace):
    """Each fact as the run's own process has it, compared with ledger, pod and node."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing")
    run = pool.submit(
        deployment,
        "told",
        **shell("printenv; echo end of the environment"),
        team="vision",
        project="maps",
    )
    pool.wait_until(run, "Completed", timeout_s=90)
    settled(pool, run)
    (attempt,) = pool.attempts(run)
    wait_for(
        lambda: "end of the environment" in "\n".join(pool.logs(run)), "its output is in its log"
    )
    lines = (line.partition("=") for text in pool.logs(run) for line in text.splitlines())
    reported = RunContext.from_environment({name: value for name, _, value in lines})
    (pod,) = pods(namespace, run)
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
        assert not [p for p in pods(namespace, run) if p["status"]["phase"] == "Running"]
    wait_for(lambda: "hello from the run" in pool.logs(done), "its output is in its log")
    assert "I am a proxy" not in pool.logs(done)


def test_a_container_that_fails_is_tried_again_and_then_failed_with_its_last_lines(pool):
    run = pool.submit(
        pool.deploy(f"{FLOWS}:do_nothing"), "bad", max_failures=2, **shell("echo no data; exit 3")
    )
    pool.wait_until(run, "Failed", timeout_s=120)
    settled(pool, run)

    first, second = pool.attempts(run)
    assert (first.exit_code, second.exit_code) == (3, 3)
    assert first.is_charged_failure
    assert second.is_charged_failure
    message = pool.message(run)
    assert "Failure 2 of 2" in message
    assert "exit code 3" in message


def test_runs_share_the_gpus_and_the_rest_wait_with_a_reason(pool, namespace):
    deployment = pool.deploy(f"{FLOWS}:do_nothing")
    variables = shell("sleep 4", gpu_count=4)
    runs = [pool.submit(deployment, f"r{number}", **variables) for number in range(3)]
    wait_for(
        lambda: any("GPU" in (pool.message(run) or "") for run in runs), "one is told why it waits"
    )
    for run in runs:
        pool.wait_until(run, "Completed", timeout_s=120)
        settled(pool, run)
    held = sorted(
        (attempt.admitted_at, attempt.released_at) for run in runs for attempt in pool.attempts(run)
    )
    assert max(sum(a <= at < b for a, b in held) for at, _ in held) <= 2


def test_a_run_that_fits_on_no_node_waits_for_one_and_says_so(pool):
    run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing"), "large", gpu_count=64, **shell("true"))
    pool.wait_until(run, "ExceedsCluster", timeout_s=90)
    assert pool.run(run)["state"]["type"] == "SCHEDULED"


def test_a_pod_that_is_evicted_goes_on_in_another_attempt(pool, namespace):
    # Without the trap it would be deaf to SIGTERM, as every first process is, and do all its work.
    script = 'trap "exit 143" TERM; sleep 8 & wait'
    run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing"), "evicted", **shell(script))
    pool.wait_until(run, "Running", timeout_s=90)
    (pod,) = pods(namespace, run)
    namespace.evict(pod["metadata"]["name"])
    pool.wait_until(run, "Completed", timeout_s=120)
    settled(pool, run)

    first, second = pool.attempts(run)
    assert first.end_reason == "Interrupted"
    assert not first.is_charged_failure
    assert second.end_reason == "Completed"


def test_an_image_that_cannot_be_pulled_fails_with_the_image_named(pool):
    run = pool.submit(
        pool.deploy(f"{FLOWS}:do_nothing"),
        "image",
        image="127.0.0.1:9/no/such:image",
        **shell("true"),
    )
    pool.wait_until(run, "Failed", timeout_s=120)
    assert "127.0.0.1:9/no/such:image" in pool.message(run)


def test_a_cancelled_run_ends_and_gives_its_gpus_back(pool, namespace):
    script = 'trap "exit 143" TERM; sleep 300 & wait'
    run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing"), "cancelled", **shell(script))
    pool.wait_until(run, "Running", timeout_s=90)
    pool.call(
        "POST",
        f"/flow_runs/{run}/set_state",
        {"state": {"type": "CANCELLING", "name": "Cancelling"}},
    )
    pool.wait_until(run, "Cancelled", timeout_s=120)
    settled(pool, run)
    assert not [p for p in pods(namespace, run) if p["status"]["phase"] == "Running"]
    (attempt,) = pool.attempts(run)
    assert attempt.end_reason == "Cancelled"
    # Nothing in it learns of it from Prefect: it is informed at once, not when its grace is over.
    stopped_s = (attempt.released_at - attempt.drain_requested_at).total_seconds()
    assert stopped_s < (attempt.drain_deadline_at - attempt.drain_requested_at).total_seconds() / 2


def test_a_killed_worker_is_followed_by_one_that_takes_its_runs_over(pool, namespace):
    run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing"), "lives on", **shell("sleep 20"))
    pool.wait_until(run, "Running", timeout_s=90)
    pool.kill_worker()
    pool.start_worker()
    pool.wait_until(run, "Completed", timeout_s=120)
    settled(pool, run)
    (attempt,) = pool.attempts(run)
    assert attempt.end_reason == "Completed"
    assert len(pods(namespace, run)) == 1


def test_a_replaced_pod_begins_when_its_forerunner_has_ended(pool, namespace):
    """While no worker is there Kubernetes before 1.26 makes another pod for one that still ends."""
    folder = pool.folder / "shared"
    journal = folder / "journal"
    (folder / "hold").touch()  # or a busy machine deletes its pod after it has ended
    command = f"/bin/sh {JOURNALED_RUN} {folder} 60 keeps 3"
    run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing"), "replaced", container_command=command)
    wait_for(lambda: journal.exists() and " step " in journal.read_text(), "it works")
    pool.kill_worker()
    (pod,) = pods(namespace, run)
    namespace.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
    wait_for(lambda: " stopped " in journal.read_text(), "it has ended, three seconds later", 60)
    # A worker that still sees it ends the attempt instead, and starts the next one.
    gone = pod["metadata"]["uid"]
    wait_for(
        lambda: all(each["metadata"]["uid"] != gone for each in pods(namespace, run)),
        *("its pod is gone", 240),
    )
    (folder / "hold").unlink()
    pool.start_worker()
    pool.wait_until(run, "Completed", timeout_s=120)
    settled(pool, run)
    lives = read_lives(journal)
    assert len(lives) == 2
    assert faults_of_lives(lives, [run], [run]) == []


def test_a_flow_that_cannot_be_loaded_says_why_on_its_page(pool, namespace):
    """Its pod ends well, and Prefect itself says only that a process ended with code 1."""
    run = pool.submit(pool.deploy(f"{FLOWS}:no_such_flow"), "typo")
    wait_for(lambda: "Permanent failure" in pool.message(run), "its page says why", timeout_s=240)
    settled(pool, run)

    (pod,) = pods(namespace, run)
    assert pod["status"]["phase"] == "Succeeded"
    assert pool.state(run) == "Crashed"
    assert "has no flow 'no_such_flow'. Correct the deployment's entrypoint" in pool.message(run)
    (attempt,) = pool.attempts(run)
    assert (attempt.end_reason, attempt.is_charged_failure) == ("Crashed", True)
    wait_for(
        lambda: any("'no_such_flow' not found" in line for line in pool.logs(run)),
        "the traceback is in its log",
    )


def test_a_job_that_the_cluster_refuses_for_good_is_tried_once(pool, namespace):
    deployment = pool.deploy(f"{FLOWS}:do_nothing")
    invalid = pool.submit(deployment, "invalid", env={"not a name!": "1"}, **shell("true"))
    nowhere = pool.submit(deployment, "nowhere", namespace="no-such-place", **shell("true"))
    misnamed = pool.submit(deployment, "image", image="Team/Train:1", **shell("true"))
    for run, want in (
        (invalid, "The cluster refuses it: Job.batch"),
        (nowhere, "The cluster has no namespace 'no-such-place'. Create it"),
        (misnamed, "Image 'Team/Train:1' of container prefect-job is no valid name"),
    ):
        pool.wait_until(run, "Crashed", timeout_s=90)
        settled(pool, run)
        assert pool.message(run).startswith(f"It cannot be started. {want}")
        (attempt,) = pool.attempts(run)
        assert (attempt.end_reason, attempt.is_charged_failure) == ("Refused", False)
        assert not any("Traceback" in line for line in pool.logs(run))
    assert not jobs(namespace, invalid)
    assert "Traceback" not in pool.worker_log()


# Of Jobs the API server refuses the second itself; of GPUs it refuses the pod, as its Job says.
@pytest.mark.parametrize("hard", ["count/jobs.batch=1", "requests.nvidia.com/gpu=4"])
def test_what_a_resource_quota_refuses_waits_without_holding_gpus(pool, namespace, hard):
    namespace.kubectl("create", "quota", "small", f"--hard={hard}")
    wait_for(lambda: "hard" in namespace.get("quota", "small")["status"], "it is in force")
    deployment = pool.deploy(f"{FLOWS}:do_nothing")
    first = pool.submit(deployment, "first", gpu_count=4, **shell("sleep 30"))
    pool.wait_until(first, "Running", timeout_s=90)
    second = pool.submit(deployment, "second", gpu_count=4, max_failures=1, **shell("true"))
    pool.wait_until(second, "WaitingForClusterQuota")
    assert "exceeded quota: small" in pool.message(second)
    assert pool.run(second)["state"]["type"] == "SCHEDULED"
    assert all(attempt.released_at for attempt in pool.attempts(second))
    # The first Job stays there for a while after it has ended, and counts as long.
    wait_for(lambda: pool.state(first) == "Completed", "the first is done", 90)
    namespace.kubectl("delete", "resourcequota", "small")
    pool.wait_until(second, "Completed", timeout_s=150)
    settled(pool, second)

    *postponed, last = pool.attempts(second)
    assert {attempt.end_reason for attempt in postponed} == {"Postponed"}
    assert not any(attempt.is_charged_failure for attempt in postponed)
    assert last.end_reason == "Completed"
    assert "Traceback" not in pool.worker_log()


@pytest.mark.parametrize(
    ("resource", "want_reason", "want_message"),
    [
        pytest.param(
            "jobs.batch",
            "Refused",
            f"It cannot be started. The cluster's admission webhook '{NAME}' refuses it: no budget "
            "label. Change the pool's base job template",
            id="its Job",
        ),
        pytest.param(
            "pods",
            "TimedOut",
            f'admission webhook "{NAME}" denied the request: no budget label. Change the pool\'s '
            "base job template, or the rule that refuses it",
            id="its pod",
        ),
    ],
)
def test_what_an_admission_webhook_denies_is_said_with_its_words(
    pool, namespace, tmp_path, resource, want_reason, want_message
):
    with denying(namespace, resource, "no budget label", tmp_path):
        run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing"), "denied", **shell("true"))
        wait_for(lambda: pool.state(run) in ("Crashed", "Failed"), "it is given up", 120)
        settled(pool, run)
    assert want_message in pool.message(run)
    (attempt,) = pool.attempts(run)
    assert (attempt.end_reason, attempt.is_charged_failure) == (want_reason, False)
    assert "Traceback" not in pool.worker_log()


def test_a_secret_that_is_gone_and_a_namespace_that_ends_are_said_on_the_runs_page(
    new_pool, namespace
):
    pool = new_pool(POLICY + "  secrets: {TOKEN: {name: gone, key: token}}\n")
    pool.start_worker()
    deployment = pool.deploy(f"{FLOWS}:do_nothing")
    ending = f"{namespace.name}-ending"
    namespace.cluster.kubectl("create", "namespace", ending)
    held = {"name": "held", "finalizers": ["tests.prefect-gpu.dev/held"]}
    namespace.cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": held}, f"--namespace={ending}"
    )
    namespace.cluster.kubectl("delete", "namespace", ending, "--wait=false")
    # A Job that is created before is deleted with the namespace, and its run has another attempt.
    wait_for(lambda: refuses_objects(namespace.cluster, ending), "it counts as ending")
    try:
        without_secret = pool.submit(deployment, "no secret", **shell("true"))
        nowhere = pool.submit(deployment, "nowhere", namespace=ending, **shell("true"))
        pool.wait_until(nowhere, "Crashed", timeout_s=90)
        wait_for(lambda: pool.run(without_secret)["state"]["type"] == "FAILED", "it ends", 120)
        settled(pool, nowhere)
        settled(pool, without_secret)
    finally:
        namespace.cluster.kubectl(
            "patch", "configmap", "held", f"--namespace={ending}", "--type=merge",
            '--patch={"metadata": {"finalizers": null}}',
        )  # fmt: skip
    assert f"The namespace '{ending}' is being deleted. Create it anew" in pool.message(nowhere)
    assert "Create Secret 'gone' in the namespace of the run" in pool.message(without_secret)
    for run, want in ((nowhere, "Refused"), (without_secret, "TimedOut")):
        ends = [(a.end_reason, a.is_charged_failure, a.end_message) for a in pool.attempts(run)]
        assert [end[:2] for end in ends] == [(want, False)], ends
    assert not [p for p in pods(namespace, without_secret) if p["status"]["phase"] == "Pending"]
    assert "Traceback" not in pool.worker_log()


def refuses_objects(cluster, namespace):
    """Does the API server refuse what would be created in this namespace?"""
    try:
        cluster.kubectl(
            "create", "configmap", "probe", f"--namespace={namespace}", "--dry-run=server"
        )
    except KubectlFailed as refused:
        return "is being terminated" in str(refused)
    return False


def test_a_template_that_changes_under_running_pods_counts_for_the_next_run(pool, namespace):
    deployment = pool.deploy(f"{FLOWS}:do_nothing")
    first = pool.submit(deployment, "first", **shell("sleep 40"))
    pool.wait_until(first, "Running", timeout_s=90)
    (uid,) = (pod["metadata"]["uid"] for pod in pods(namespace, first))
    template = pool.call("GET", f"/work_pools/{pool.name}")["base_job_template"]
    manifest = template["job_configuration"]["job_manifest"]

    def change(part):
        pool.call("PATCH", f"/work_pools/{pool.name}", {"base_job_template": part})

    job = manifest["spec"]["template"]
    manifest["spec"]["template"] = {**job, "spec": {**job["spec"], "containers": []}}
    change(template)
    broken = pool.submit(deployment, "broken", **shell("true"))
    pool.wait_until(broken, "Crashed", timeout_s=120)
    assert "The pool's base job template cannot be used" in pool.message(broken)
    assert "/spec/template/spec/containers/0" in pool.message(broken)
    manifest["spec"]["template"] = {**job, "metadata": {"labels": {"team": "changed"}}}
    change(template)
    second = pool.submit(deployment, "second", **shell("true"))
    pool.wait_until(second, "Completed", timeout_s=120)
    (pod,) = pods(namespace, second)
    assert pod["metadata"]["labels"]["team"] == "changed"

    pool.wait_until(first, "Completed", timeout_s=120)
    settled(pool, first)
    (attempt,) = pool.attempts(first)
    assert attempt.end_reason == "Completed"
    assert [pod["metadata"]["uid"] for pod in pods(namespace, first)] == [uid]
    assert "Traceback" not in pool.worker_log()


def test_a_container_that_is_done_is_not_run_again_although_its_run_was_set_back(pool, namespace):
    run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing"), "set back", **shell("sleep 5"))
    pool.wait_until(run, "Running", timeout_s=90)
    back = {"state": {"type": "SCHEDULED", "name": "Scheduled"}, "force": True}
    pool.call("POST", f"/flow_runs/{run}/set_state", back)
    pool.wait_until(run, "Completed", timeout_s=90)
    settled(pool, run)
    (attempt,) = pool.attempts(run)
    assert attempt.end_reason == "Completed"
    assert len(pods(namespace, run)) == 1


def test_a_flow_that_fails_as_the_server_is_away_is_not_charged(pool, server):
    """It reports so to Prefect when the server is back."""
    shared = pool.folder / "shared"
    deployment = pool.deploy(f"{FLOWS}:ask_prefect_when_released")
    run = pool.submit(deployment, "asking", {"folder": str(shared)}, max_failures=1)
    wait_for((shared / "began-1").exists, "the flow works", 120)

    server.stop()
    try:
        seen = "Prefect's API is unavailable"
        wait_for(lambda: seen in pool.worker_log(), "the worker saw the outage")
        (shared / "release").touch()
        wait_for((shared / "failed-1").exists, "the flow failed by it")
    finally:
        server.start()
    pool.wait_until(run, "Completed", timeout_s=180)
    settled(pool, run)

    first, second = pool.attempts(run)
    assert first.end_reason == "Interrupted", first.end_message
    assert first.end_message.startswith("Interrupted: Prefect's API was unavailable from ")
    assert not first.is_charged_failure
    assert second.end_reason == "Completed"
