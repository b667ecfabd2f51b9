"""The local cluster does what a test of the worker will rely on."""

import subprocess
from pathlib import Path

import pytest

from gpu_core.decisions.kubernetes.manifests.tombstone import tombstone_jobs
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from tests.support.cluster import (
    GPU,
    LOCAL_CLUSTER,
    Cluster,
    KubectlFailed,
    Namespace,
    job_manifest,
    local_cluster,
    python_in_pod,
)
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[2]
UNTIL_SIGTERM = "trap 'echo saved; exit 0' TERM; echo started; while :; do sleep 0.1; done"
SIMULATED = "simulated.prefect-gpu/set=simulated"


def test_a_job_with_gpus_runs_and_its_log_is_read(namespace: Namespace):
    namespace.create(job_manifest("train", ["echo", "loss 0.25"]))
    namespace.kubectl("wait", "--for=condition=complete", "job/train", "--timeout=240s")
    assert namespace.kubectl("logs", "job/train") == "loss 0.25\n"


def test_a_tombstone_is_over_at_once_and_keeps_its_name(namespace: Namespace):
    (tombstone,) = tombstone_jobs("a", "run-1", "gpu", 1, KubernetesPolicy())
    namespace.create(tombstone)
    namespace.kubectl("wait", "--for=condition=complete", "job/gpu-a", "--timeout=240s")
    assert namespace.get("pods")["items"] == []
    with pytest.raises(KubectlFailed, match="AlreadyExists"):
        namespace.create(job_manifest("gpu-a", ["echo", "too late"]))


def test_python_of_this_machine_runs_in_a_pod(namespace: Namespace):
    host = python_in_pod(ROOT)
    script = (
        "from gpu_core.decisions.model.errors import InvalidInput; print(InvalidInput.__name__)"
    )
    job = job_manifest("python", [host["python"], "-c", script], **host["pod"])
    job["spec"]["template"]["spec"]["containers"][0] |= host["container"]
    namespace.create(job)
    namespace.kubectl("wait", "--for=condition=complete", "job/python", "--timeout=240s")
    assert namespace.kubectl("logs", "job/python") == "InvalidInput\n"


def test_a_pod_without_the_machines_network_starts_and_is_alone(namespace: Namespace):
    namespace.create(job_manifest("alone", ["ip", "-o", "address"], hostNetwork=False))
    namespace.kubectl("wait", "--for=condition=complete", "job/alone", "--timeout=240s")
    interfaces = {line.split()[1] for line in namespace.kubectl("logs", "job/alone").splitlines()}
    assert interfaces == {"lo"}


def test_sigterm_reaches_the_program_when_its_pod_is_evicted(namespace: Namespace):
    pod = _start(namespace, "train", UNTIL_SIGTERM)
    with subprocess.Popen(
        namespace.cluster.kubectl_command("logs", "-f", "-n", namespace.name, pod),
        stdout=subprocess.PIPE, text=True,
    ) as log:  # fmt: skip
        assert log.stdout.readline() == "started\n"
        namespace.evict(pod)
        assert log.stdout.readline() == "saved\n"


def test_a_program_over_its_memory_is_killed_and_its_pod_says_so(namespace: Namespace):
    grow = ["sh", "-c", "x=aaaaaaaa; while :; do x=$x$x; done"]
    job = job_manifest("train", grow)
    job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] = "30Mi"
    namespace.create(job)
    wait_for(lambda: _phases(namespace, "train") == ["Failed"], "the pod has failed")
    (pod,) = namespace.pods_of("train")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


def test_a_quota_refuses_more_gpus(namespace: Namespace):
    namespace.kubectl("create", "quota", "team", f"--hard=requests.{GPU}=2")
    pod = job_manifest("train", ["true"], gpus=3)["spec"]["template"]["spec"]
    wait_for(lambda: "hard" in namespace.get("quota", "team")["status"], "the quota is in force")
    with pytest.raises(KubectlFailed, match="exceeded quota: team"):
        namespace.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"}, "spec": pod}
        )


def test_a_second_job_waits_for_the_gpus_of_the_first(namespace: Namespace):
    node = namespace.cluster.get("nodes")["items"][0]
    gpus = int(node["status"]["allocatable"][GPU])
    first = _start(namespace, "first", UNTIL_SIGTERM, gpus)
    namespace.create(job_manifest("second", ["true"]))
    wait_for(lambda: _why_it_waits(namespace, "second") != "", "the second is refused a place")
    assert f"Insufficient {GPU}" in _why_it_waits(namespace, "second")
    namespace.kubectl("delete", "job", "first", "--wait=false")
    namespace.kubectl("wait", "--for=condition=complete", "job/second", "--timeout=240s")
    assert first != namespace.pods_of("second")[0]["metadata"]["name"]


def test_a_taint_keeps_pods_away(namespace: Namespace):
    (node,) = namespace.cluster.nodes()
    namespace.cluster.taint(node, "karpenter.sh/disrupted=:NoSchedule")
    try:
        namespace.create(job_manifest("train", ["true"]))
        wait_for(lambda: _why_it_waits(namespace, "train") != "", "the pod is refused a place")
        assert "had taint {karpenter.sh/disrupted" in _why_it_waits(namespace, "train")
    finally:
        namespace.cluster.taint(node, "karpenter.sh/disrupted-")
    namespace.kubectl("wait", "--for=condition=complete", "job/train", "--timeout=240s")


def test_a_node_that_was_deleted_comes_back_with_its_gpus_and_labels(cluster: Cluster):
    want_node = cluster.get("nodes")["items"][0]
    name = want_node["metadata"]["name"]
    cluster.stop("kubelet")
    cluster.delete_node(name)
    assert cluster.nodes() == []
    cluster.start("kubelet")
    node = cluster.get("node", name)
    assert node["metadata"]["uid"] != want_node["metadata"]["uid"]
    assert node["metadata"]["labels"] == want_node["metadata"]["labels"]
    assert node["status"]["allocatable"][GPU] == want_node["status"]["allocatable"][GPU]


def test_a_silent_kubelet_makes_its_node_not_ready(cluster: Cluster):
    (node,) = cluster.nodes()
    cluster.stop("kubelet")
    try:
        wait_for(lambda: _ready(cluster, node) == "Unknown", "the node is not ready")
    finally:
        cluster.start("kubelet")
    assert _ready(cluster, node) == "True"
    assert GPU in cluster.get("node", node)["status"]["allocatable"]


def test_nothing_is_lost_when_the_api_server_restarts(namespace: Namespace):
    pod = _start(namespace, "train", "echo started; sleep 2; echo done")
    namespace.cluster.restart("kube-apiserver")
    wait_for(lambda: namespace.phase(pod) == "Succeeded", "the pod has succeeded")
    assert namespace.kubectl("logs", pod) == "started\ndone\n"


def test_pods_on_simulated_nodes_end_and_stop_as_they_say(cluster: Cluster, namespace: Namespace):
    with cluster.simulated_nodes(3, "--gpus=8", "--instance-type=p5.48xlarge"):
        nodes = cluster.get("nodes", f"--selector={SIMULATED}")["items"]
        assert {node["status"]["allocatable"][GPU] for node in nodes} == {"8"}
        for name, annotations in {
            "ends": {"run-for-s": "1"},
            "fails": {"run-for-s": "1", "exit-code": "3"},
            "stops": {},
        }.items():
            namespace.create(_simulated_job(name, annotations))
        namespace.kubectl("wait", "--for=condition=complete", "job/ends", "--timeout=240s")
        namespace.kubectl("wait", "--for=condition=failed", "job/fails", "--timeout=240s")
        (failed,) = namespace.pods_of("fails")
        state = failed["status"]["containerStatuses"][0]["state"]
        assert state["terminated"]["exitCode"] == 3
        (running,) = namespace.pods_of("stops")
        assert running["status"]["phase"] == "Running"
        namespace.kubectl("delete", "job", "stops")
        wait_for(lambda: namespace.pods_of("stops") == [], "the pod is gone")
    assert cluster.get("nodes", f"--selector={SIMULATED}")["items"] == []


def test_two_clusters_live_side_by_side_and_leave_nothing(namespace: Namespace):
    with local_cluster("--node=other-node", "--gpus=1") as other:
        namespace.create(job_manifest("here", ["true"]))
        assert other.nodes() == ["other-node"]
        assert "job/here" not in other.kubectl("get", "jobs", "-A", "-o", "name")
        namespace.kubectl("wait", "--for=condition=complete", "job/here", "--timeout=240s")
        other.create(job_manifest("there", ["sleep", "infinity"]))
        wait_for(
            lambda: "Running" in other.kubectl("get", "pods", "-o", "wide"), "a pod runs there"
        )
        assert other.state is not None
        init = (other.state / "init.pid").read_text().strip()
        lifeline = Path(f"/proc/{init}/fd/0").readlink()
        assert str(lifeline).startswith("pipe:")  # its other end is this process's
        inside = _processes_of(init)
        assert len(inside) > 8  # its six programs, the shim and the pod's containers
    assert not other.state.exists()
    assert [pid for pid in inside if Path(f"/proc/{pid}").exists()] == []
    assert str(other.state) not in Path("/proc/self/mountinfo").read_text()
    assert list(Path("/sys/fs/cgroup").glob("**/*other-node*")) == []


def test_a_folder_that_is_no_cluster_is_left_alone(tmp_path: Path):
    done = subprocess.run(
        [LOCAL_CLUSTER / "down.py", tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "holds no cluster" in done.stderr
    assert tmp_path.exists()


def _start(namespace: Namespace, job: str, script: str, gpus: int = 1) -> str:
    """Create a Job of this shell script and wait until its pod runs; the pod's name."""
    namespace.create(job_manifest(job, ["sh", "-c", script], gpus))
    wait_for(lambda: _phases(namespace, job) == ["Running"], f"the pod of {job} runs")
    return namespace.pods_of(job)[0]["metadata"]["name"]


def _simulated_job(name: str, annotations: dict[str, str]) -> dict:
    selector = {"simulated.prefect-gpu/set": "simulated"}
    job = job_manifest(name, ["true"], gpus=8, nodeSelector=selector)
    job["spec"]["template"]["metadata"] = {
        "annotations": {f"simulated.prefect-gpu/{key}": value for key, value in annotations.items()}
    }
    return job


def _phases(namespace: Namespace, job: str) -> list[str]:
    return [pod["status"]["phase"] for pod in namespace.pods_of(job)]


def _why_it_waits(namespace: Namespace, job: str) -> str:
    """What the scheduler says about the Job's pod; empty while it has said nothing."""
    return " ".join(
        condition.get("message", "")
        for pod in namespace.pods_of(job)
        for condition in pod["status"].get("conditions", [])
        if condition["type"] == "PodScheduled" and condition["status"] == "False"
    )


def _ready(cluster: Cluster, node: str) -> str:
    conditions = cluster.get("node", node)["status"]["conditions"]
    return next(c["status"] for c in conditions if c["type"] == "Ready")


def _processes_of(init: str) -> list[int]:
    """Everything that runs in this process's process namespace."""
    namespace = _namespace_of(Path("/proc") / init)
    processes = [entry for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return [int(entry.name) for entry in processes if _namespace_of(entry) == namespace]


def _namespace_of(process: Path) -> Path | None:
    try:
        return (process / "ns" / "pid").readlink()
    except OSError:  # it ended meanwhile
        return None
