"""What a cluster refuses: its runs end, or wait without GPUs, and say so with its words.

Most of the time of these stories is waiting for what does not come, so they wait together.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.cluster.pools import (
    FLOWS,
    POLICY,
    jobs_of,
    pods_of,
    settled,
    shell,
    working_pool,
)
from tests.support.admission_webhook import NAME, denying
from tests.support.cluster import Cluster, KubectlFailed, Namespace
from tests.support.prefect_stack import Pool
from tests.support.waiting import wait_for

# Where a run is over when its pod has not started in time, and no run makes use of its notice.
IMPATIENT = POLICY.replace("grace_period: 20s", "grace_period: 5s")
# Where a busy machine may take as long as it takes.
PATIENT = POLICY.replace("pending_timeout: 20s", "pending_timeout: 10m")
# Of Jobs the API server refuses the second itself; of GPUs it refuses the pod, as its Job says.
QUOTAS = ("count/jobs.batch=1", "requests.nvidia.com/gpu=1")
DENIED = ("jobs.batch", "pods")
POLICIES = {
    "refused at once": PATIENT,
    "unpullable": IMPATIENT,
    "without its secret": IMPATIENT + "  secrets: {TOKEN: {name: gone, key: token}}\n",
    **dict.fromkeys(QUOTAS, PATIENT),
    **dict.fromkeys(DENIED, IMPATIENT),
}


@dataclass(frozen=True)
class Story:
    """Runs with a pool, a worker and a namespace of their own."""

    pool: Pool
    namespace: Namespace
    deployment: str
    runs: dict[str, str]

    def submit(self, name: str, **variables: object) -> str:
        """Submit a run; its id."""
        self.runs[name] = self.pool.submit(self.deployment, name, **variables)
        return self.runs[name]


@pytest.fixture(scope="module")
def _stories(cluster, server, tmp_path_factory) -> Iterator[dict[str, Story]]:
    """All of them, with the runs that they begin with."""
    with ExitStack() as stack:
        stories = {}
        for name, policy in POLICIES.items():
            folder = tmp_path_factory.mktemp("refusals")
            pool, namespace = stack.enter_context(working_pool(cluster, server, folder, policy))
            story = Story(pool, namespace, pool.deploy(f"{FLOWS}:do_nothing"), {})
            if name in DENIED:
                stack.enter_context(denying(namespace, name, "no budget label", folder))
            begin(name, story)
            stories[name] = story
        yield stories


def begin(name: str, story: Story) -> None:
    """Submit what this story begins with."""
    if name in QUOTAS:
        story.namespace.kubectl("create", "quota", "small", f"--hard={name}")
        wait_for(lambda: "hard" in story.namespace.get("quota", "small")["status"], "it is there")
        release = story.pool.folder / "shared" / "release"
        story.submit("first", **shell(f"until [ -e {release} ]; do sleep 0.2; done"))
    elif name == "refused at once":
        story.submit("invalid", env={"not a name!": "1"}, **shell("true"))
        story.submit("nowhere", namespace="no-such-place", **shell("true"))
        story.submit("misnamed", image="Team/Train:1", **shell("true"))
    else:
        image = {"image": "127.0.0.1:9/no/such:image"} if name == "unpullable" else {}
        story.submit("first", **image, **shell("true"))


@pytest.fixture
def story(_stories, request) -> Iterator[Story]:
    """The one that the test names; afterwards what its runs and its worker said."""
    story = _stories[request.param]
    yield story
    story.pool.print_runs(story.runs.values())
    story.pool.print_logs()


@pytest.mark.parametrize("story", ["unpullable"], indirect=True)
def test_an_image_that_cannot_be_pulled_fails_with_the_image_named(story):
    pool, run = story.pool, story.runs["first"]
    pool.wait_until(run, "Failed", timeout_s=120)
    assert "127.0.0.1:9/no/such:image" in pool.message(run)


@pytest.mark.parametrize("story", ["refused at once"], indirect=True)
def test_a_job_that_the_cluster_refuses_for_good_is_tried_once(story):
    pool = story.pool
    for name, want in (
        ("invalid", "The cluster rejected the request: Job.batch"),
        ("nowhere", "Namespace 'no-such-place' was not found in the cluster. Create it"),
        ("misnamed", "Image 'Team/Train:1' of container prefect-job is not a valid name"),
    ):
        run = story.runs[name]
        pool.wait_until(run, "Crashed", timeout_s=90)
        settled(pool, run)
        assert pool.message(run).startswith(f"Unable to start the run. {want}")
        (attempt,) = pool.attempts(run)
        assert (attempt.end_reason, attempt.is_charged_failure) == ("Refused", False)
        assert not any("Traceback" in line for line in pool.logs(run))
    assert not jobs_of(story.namespace, story.runs["invalid"])
    assert "Traceback" not in pool.worker_log()


@pytest.mark.parametrize("story", QUOTAS, indirect=True)
def test_what_a_resource_quota_refuses_waits_without_holding_gpus(story):
    pool, first = story.pool, story.runs["first"]
    pool.wait_until(first, "Running", timeout_s=90)
    second = story.submit("second", max_failures=1, **shell("true"))
    pool.wait_until(second, "WaitingForClusterQuota")
    assert "exceeded quota: small" in pool.message(second)
    assert pool.run(second)["state"]["type"] == "SCHEDULED"
    assert all(attempt.released_at for attempt in pool.attempts(second))
    (pool.folder / "shared" / "release").touch()
    # The first Job stays there for a while after it has ended, and counts as long.
    wait_for(lambda: pool.state(first) == "Completed", "the first is done", 90)
    story.namespace.kubectl("delete", "resourcequota", "small")
    pool.wait_until(second, "Completed", timeout_s=150)
    settled(pool, second)

    *postponed, last = pool.attempts(second)
    assert {attempt.end_reason for attempt in postponed} == {"Postponed"}
    assert not any(attempt.is_charged_failure for attempt in postponed)
    assert last.end_reason == "Completed"
    assert "Traceback" not in pool.worker_log()


@pytest.mark.parametrize(
    ("story", "want_reason", "want_message"),
    [
        pytest.param(
            "jobs.batch",
            "Refused",
            f"Unable to start the run. Admission webhook '{NAME}' denied the request: no budget "
            "label. Please change the base job template",
            id="its Job",
        ),
        pytest.param(
            "pods",
            "TimedOut",
            f'admission webhook "{NAME}" denied the request: no budget label. Please correct '
            "the pool's base job template or the rule that rejects the pod",
            id="its pod",
        ),
    ],
    indirect=["story"],
)
def test_what_an_admission_webhook_denies_is_said_with_its_words(story, want_reason, want_message):
    pool, run = story.pool, story.runs["first"]
    wait_for(lambda: pool.state(run) in ("Crashed", "Failed"), "it is given up", 120)
    settled(pool, run)
    assert want_message in pool.message(run)
    (attempt,) = pool.attempts(run)
    assert (attempt.end_reason, attempt.is_charged_failure) == (want_reason, False)
    assert "Traceback" not in pool.worker_log()


@pytest.mark.parametrize("story", ["without its secret"], indirect=True)
def test_a_secret_that_is_gone_and_a_namespace_that_ends_are_said_on_the_runs_page(story):
    pool, namespace, without_secret = story.pool, story.namespace, story.runs["first"]
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
        nowhere = story.submit("nowhere", namespace=ending, **shell("true"))
        pool.wait_until(nowhere, "Crashed", timeout_s=90)
        settled(pool, nowhere)
    finally:
        namespace.cluster.kubectl(
            "patch", "configmap", "held", f"--namespace={ending}", "--type=merge",
            '--patch={"metadata": {"finalizers": null}}',
        )  # fmt: skip
    wait_for(lambda: pool.run(without_secret)["state"]["type"] == "FAILED", "it ends", 120)
    settled(pool, without_secret)
    assert (
        f"The namespace '{ending}' is being deleted. Recreate it after its deletion"
        in pool.message(nowhere)
    )
    assert "Create Secret 'gone' in the namespace of the run" in pool.message(without_secret)
    for run, want in ((nowhere, "Refused"), (without_secret, "TimedOut")):
        ends = [(a.end_reason, a.is_charged_failure, a.end_message) for a in pool.attempts(run)]
        assert [end[:2] for end in ends] == [(want, False)], ends
    pending = [p for p in pods_of(namespace, without_secret) if p["status"]["phase"] == "Pending"]
    assert not pending
    assert "Traceback" not in pool.worker_log()


def refuses_objects(cluster: Cluster, namespace: str) -> bool:
    """Does the API server refuse what would be created in this namespace?"""
    try:
        cluster.kubectl(
            "create", "configmap", "probe", f"--namespace={namespace}", "--dry-run=server"
        )
    except KubectlFailed as refused:
        return "is being terminated" in str(refused)
    return False
