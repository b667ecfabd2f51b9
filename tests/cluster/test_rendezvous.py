"""The nodes of a gang find each other by rank and address, and do so again when one was lost."""

import importlib.util
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpu_core.cli.quickstart.services import free_port
from tests.cluster.pools import FLOWS, POLICY, kubernetes_pool
from tests.support.cluster import (
    GPU,
    Cluster,
    Json,
    KubectlFailed,
    Namespace,
    kubernetes,
    new_namespace,
)
from tests.support.prefect_stack import ENGINE, Pool, PrefectServer
from tests.support.tools import do_without
from tests.support.waiting import wait_for

# The first story brings its cluster up besides, and each starts a worker and two rounds of pods.
pytestmark = pytest.mark.timeout(2400)

NODES = 2
# Python and torch are slow to start while other tests run.
TOGETHER_S = 300.0
SAID = re.compile(r"^rank (\d+) of (\d+), first at (\S+), sum (\d+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster with two GPU nodes; no other story has so many."""
    with kubernetes("--gpus=2", "--node=gang-node-1", "--node=gang-node-2") as running:
        nodes = running.get("nodes")["items"]
        if sum(int(node["status"]["allocatable"].get(GPU, 0)) >= 2 for node in nodes) < NODES:
            do_without("a gang needs two nodes with two GPUs each", "add a node to the cluster")
        yield running


@pytest.fixture
def policy(cluster: Cluster) -> str:
    """Of the pool of the test."""
    return policy_of(cluster)


def policy_of(cluster: Cluster) -> str:
    """The tests', with a port of its own: on the host's network another may have torchrun's."""
    server = json.loads(cluster.kubectl("version", "-o", "json"))["serverVersion"]
    version = re.match(r"v(\d+\.\d+)", server["gitVersion"])[1]
    known = POLICY.replace('version: "1.20"', f'version: "{version}"')
    return f"{known}  gangs: {{master_port: {free_port()}}}\n"


@pytest.fixture
def torch_folder() -> Path:
    """Where torch is installed, for pods to see it."""
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        pytest.skip("torch is missing: `pip install torch` adds this story")
    return Path(torch.origin).parents[1]


def test_two_nodes_meet_over_sockets_and_come_back_together(new_pool, namespace, policy):
    pool = new_pool(policy)
    pool.start_worker()
    command = f"{sys.executable} -m tests.cluster.rendezvous sockets stay"
    comes_back_together(pool, namespace, command, gpu_count=1)


def test_torchrun_reduces_with_gloo_over_two_nodes_and_comes_back_together(
    new_pool, namespace, policy, torch_folder
):
    pool = new_pool(policy, packages=[torch_folder])
    pool.start_worker()
    command = f"{sys.executable} -m torch.distributed.run -m tests.cluster.rendezvous gloo stay"
    comes_back_together(pool, namespace, command, gpu_count=2, memory_gib_per_gpu=1)


def test_a_flow_leads_and_the_other_node_runs_the_command(new_pool, namespace, policy):
    pool = new_pool(policy)
    pool.start_worker()
    run = pool.submit(
        pool.deploy("tests/cluster/flows.py:meet_over_sockets", **ENGINE),
        "led by a flow",
        nodes=NODES,
        container_command=f"{sys.executable} -m tests.cluster.rendezvous sockets",
    )
    pool.wait_until(run, "Completed", timeout_s=TOGETHER_S)
    all_met(namespace, pods_of(namespace, run, attempt=1), processes=1)


@dataclass(frozen=True)
class Refused:
    """A gang in a namespace whose quota has room for one of its two pods."""

    pool: Pool
    namespace: Namespace
    run: str

    def pods(self) -> list[Json]:
        """Those of its first attempt."""
        return pods_of(self.namespace, self.run, attempt=1)

    def wait_until(self, state: str) -> None:
        """Wait until the run is in this state."""
        self.pool.wait_until(self.run, state, timeout_s=TOGETHER_S)


def refused(server: PrefectServer, namespace: Namespace, folder: Path, kind: str) -> Refused:
    """Submit the gang, with a worker that acts."""
    namespace.kubectl("create", "quota", "small", "--hard=requests.nvidia.com/gpu=1")
    wait_for(lambda: "hard" in namespace.get("quota", "small")["status"], "it is in force")
    patient = policy_of(namespace.cluster).replace("pending_timeout: 20s", "pending_timeout: 10m")
    pool = kubernetes_pool(server, namespace, folder, patient)
    pool.start_worker()
    entry = "tests/cluster/flows.py:meet_and_note" if kind == "flow" else f"{FLOWS}:do_nothing"
    parameters = {"folder": str(journal_of(pool).parent)} if kind == "flow" else {}
    command = f"{sys.executable} -m tests.cluster.rendezvous sockets"
    gang = {"nodes": NODES, "max_interruptions": 1, "container_command": command, **ENGINE}
    return Refused(pool, namespace, pool.submit(pool.deploy(entry), kind, parameters, **gang))


def test_a_gang_of_which_a_quota_refuses_one_pod_is_postponed_without_charge(
    server, cluster, namespace, tmp_path
):
    """The first pod runs for 20 s before a worker looks: its flow must not have started by then.

    A flow's gang and one of containers wait at the same time, each in a namespace of its own.
    """
    with ExitStack() as stack:
        other = stack.enter_context(new_namespace(cluster))
        gangs = []
        for kind, place in (("flow", namespace), ("containers", other)):
            gangs.append(refused(server, place, tmp_path / kind, kind))
            stack.callback(gangs[-1].pool.print_logs)
            stack.callback(gangs[-1].pool.close)
        for gang in gangs:
            wait_for(gang.pods, "the first pod is there", TOGETHER_S)
            gang.pool.kill_worker()
        for gang in gangs:
            wait_for(lambda gang=gang: runs_for_s(gang) > 20, "its pod has run 20 s", TOGETHER_S)
            gang.pool.start_worker()
        # The longer a gang is refused, the longer it waits for its next start: it is freed at once.
        refused_ones = list(gangs)
        wait_for(lambda: free_those_that_wait(refused_ones), "all wait for quota", TOGETHER_S)
        for gang in gangs:
            gang.wait_until("Completed")
            was_postponed_without_charge(gang)
        flow = gangs[0]
        *_, last = flow.pool.attempts(flow.run)
        lines = journal_of(flow.pool).read_text().splitlines()
        assert [line.split()[3] for line in lines] == [str(last.number)]


def free_those_that_wait(gangs: list[Refused]) -> bool:
    """Remove the quotas of those that wait for it now; are these all?"""
    for gang in list(gangs):
        if gang.pool.state(gang.run) == "WaitingForClusterQuota":
            assert "exceeded quota: small" in gang.pool.message(gang.run)
            if not all(attempt.released_at for attempt in gang.pool.attempts(gang.run)):
                continue  # its next attempt has begun since its state was read
            gang.namespace.kubectl("delete", "resourcequota", "small")
            gangs.remove(gang)
    return not gangs


def was_postponed_without_charge(gang: Refused) -> None:
    """All its attempts but the last one cost nothing, and count as no failure."""

    def settled() -> bool:
        return all(attempt.released_at for attempt in gang.pool.attempts(gang.run))

    wait_for(settled, "all attempts are settled")
    *postponed, last = gang.pool.attempts(gang.run)
    assert {attempt.end_reason for attempt in postponed} == {"Postponed"}
    assert {attempt.released_at - attempt.admitted_at for attempt in postponed} == {timedelta()}
    assert not any(a.is_charged_failure or a.lost_capacity for a in postponed)
    assert last.end_reason == "Completed"


def journal_of(pool: Pool) -> Path:
    """Where the flow notes its attempts; its pods see it too."""
    return pool.folder / "shared" / "journal"


def runs_for_s(gang: Refused) -> float:
    """How long has the container of the first pod been running?"""
    (pod,) = gang.pods()
    found = pod["status"].get("containerStatuses") or [{}]
    started_at = found[0].get("state", {}).get("running", {}).get("startedAt")
    if started_at is None:
        return 0.0
    return (datetime.now(UTC) - datetime.fromisoformat(started_at)).total_seconds()


def test_a_node_that_fails_is_the_cause_and_not_the_other_that_is_ended_then(new_pool, policy):
    pool = new_pool(policy)
    pool.start_worker()
    # The first is deaf to SIGTERM, as every first process is, and is killed.
    script = "test $NODE_RANK = 1 && { echo no data for rank $NODE_RANK; exit 3; }; sleep 600"
    run = submit_gang(pool, f"/bin/sh -c '{script}'", max_failures=1)
    pool.wait_until(run, "Failed", timeout_s=TOGETHER_S)
    assert "exit code 3" in pool.message(run)
    wait_for(lambda: all(a.released_at for a in pool.attempts(run)), "its attempt is settled")
    (attempt,) = pool.attempts(run)
    assert (attempt.exit_code, attempt.is_charged_failure) == (3, True)
    # Of a gang the log has the first node's output as it comes, and at the end the cause's.
    wait_for(
        lambda: any("no data for rank 1" in line for line in pool.logs(run)),
        "the output of the node that failed is in the run's log",
    )


def test_a_node_that_fails_because_the_other_fell_silent_was_interrupted(
    new_pool, namespace, policy, cluster
):
    """Nothing of the second node is heard any more; the first notices before Kubernetes does."""
    pool = new_pool(policy)
    pool.start_worker()
    broken = pool.folder / "broken"
    script = (
        f"test $PREFECT_GPU_ATTEMPT = 2 && exit 0; test $NODE_RANK = 1 && exec sleep 600; "
        f"until test -e {broken}; do sleep 0.2; done; exit 1"
    )
    run = submit_gang(pool, f"/bin/sh -c '{script}'", max_failures=1)
    pool.wait_until(run, "Running", timeout_s=TOGETHER_S)
    first_try = pods_of(namespace, run, attempt=1)
    wait_for(
        lambda: all(
            pod["status"]["phase"] == "Running" for pod in pods_of(namespace, run, attempt=1)
        ),
        "both nodes run",
        TOGETHER_S,
    )
    silent = f"kubelet@{first_try[-1]['spec']['nodeName']}"
    cluster.stop(silent)
    try:
        broken.touch()
        wait_for(
            lambda: pool.attempts(run)[0].released_at, "the first attempt is settled", TOGETHER_S
        )
    finally:
        cluster.start(silent)
    pool.wait_until(run, "Completed", timeout_s=TOGETHER_S)
    lost = pool.attempts(run)[0]
    assert (lost.end_reason, lost.is_charged_failure) == ("Interrupted", False)
    assert "the gang was terminated because node" in (lost.end_message or "")


def submit_gang(pool: Pool, command: str, **variables: object) -> str:
    """A container job on two nodes; its id."""
    return pool.submit(
        pool.deploy(f"{FLOWS}:do_nothing"),
        "gang",
        nodes=NODES,
        framework="torchrun",
        container_command=command,
        **variables,
    )


def comes_back_together(
    pool: Pool, namespace: Namespace, command: str, *, gpu_count: int, **variables: object
) -> None:
    """The story: the ranks meet, one node is lost, all end, and all meet again on the next try."""
    run = submit_gang(pool, command, gpu_count=gpu_count, **variables)
    want_lines = NODES * gpu_count
    wait_for(
        lambda: len(lines_of(namespace, pods_of(namespace, run, attempt=1))) == want_lines,
        "all ranks have met",
        TOGETHER_S,
    )
    first_try = pods_of(namespace, run, attempt=1)
    all_met(namespace, first_try, gpu_count)

    namespace.kubectl("delete", "pod", first_try[-1]["metadata"]["name"], "--wait=false")
    pool.wait_until(run, "Completed", timeout_s=TOGETHER_S)
    wait_for(lambda: all(a.released_at for a in pool.attempts(run)), "all attempts are settled")
    lost, whole = pool.attempts(run)
    assert (lost.end_reason, lost.is_charged_failure) == ("Interrupted", False)
    assert whole.end_reason == "Completed"
    assert whole.admitted_at >= lost.released_at
    second_try = pods_of(namespace, run, attempt=2)
    all_met(namespace, second_try, gpu_count)
    assert [exit_code(pod) for pod in second_try] == [0] * NODES
    left = pods_of(namespace, run, attempt=1)
    assert "Running" not in [pod["status"]["phase"] for pod in left]


def all_met(namespace: Namespace, pods: Sequence[Json], processes: int) -> None:
    """Each rank of these pods, one on each node, knew the first and got the sum of all."""
    assert len({pod["spec"]["nodeName"] for pod in pods}) == len(pods) == NODES
    assert len({pod["status"]["podIP"] for pod in pods}) == NODES
    world = NODES * processes
    first = pods[0]["status"]["podIP"]
    for node, pod in enumerate(pods):
        assert sorted(lines_of(namespace, [pod])) == [
            (str(rank), str(world), first, str(2**world - 1))
            for rank in range(node * processes, (node + 1) * processes)
        ]


def pods_of(namespace: Namespace, run: str, attempt: int) -> list[Json]:
    """The pods of this attempt, by rank: their Jobs' names, or their own, end in it."""
    selector = f"prefect-gpu.dev/flow-run-id={run},prefect-gpu.dev/attempt={attempt}"
    found = namespace.get("pods", f"--selector={selector}")["items"]
    return sorted(found, key=lambda pod: pod["metadata"]["name"])


def lines_of(namespace: Namespace, pods: Sequence[Json]) -> list[tuple[str, ...]]:
    """What the ranks in these pods said of their meeting: rank, world, the first one, the sum."""
    return [found for pod in pods for found in SAID.findall(said_by(namespace, pod))]


def said_by(namespace: Namespace, pod: Json) -> str:
    try:
        return namespace.kubectl("logs", pod["metadata"]["name"])
    except KubectlFailed:  # it does not run yet
        return ""


def exit_code(pod: Json) -> int:
    """What its container ended with."""
    return pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]
