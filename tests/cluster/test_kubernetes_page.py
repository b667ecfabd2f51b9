"""docs/kubernetes.md, word for word: installation, first run, GPU failure, upgrade, removal.

Its commands are run as they stand, with an operator's own names in place of those that the page
says to replace. Not run are those that need a container daemon: the worker is this machine's
Python.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from gpu_core.cli.quickstart.services import free_port
from tests.cluster.installed_worker import KINDS_OF_RELEASE, values_of_this_machine
from tests.support.cluster import GPU, Cluster
from tests.support.helm import POLICY, helm_tools
from tests.support.page import blocks_of
from tests.support.prefect_stack import PrefectServer
from tests.support.waiting import wait_for

PAGE = Path("docs/kubernetes.md")
IMAGE = "docker.io/library/busybox:1"
WORKER, RUNS = "prefect-gpu", "prefect-gpu-runs"
NODE = "gpu-node-1"
POOL_LABEL = "prefect-gpu.dev/pool=gpu"
# It ends within its grace period, and otherwise only when it is let go.
WAITING = "sh -c 'trap exit TERM; until test -e /tmp/go; do sleep 1 & wait; done; echo went on'"
PATIENCE_S = 300.0


@dataclass
class Operator:
    """A person who does what the page says.

    Attributes:
        prefect: Asks the server; to make such a client takes as long as twenty questions.
        own: What the operator writes in place of a text of the page.
        environment: Of all commands; what a block exports is part of it from then on.
        write_values: Writes values that are others each time, as two pods on this machine's network
            cannot have one port.
    """

    cluster: Cluster
    prefect: httpx.Client
    folder: Path
    own: dict[str, str]
    environment: dict[str, str]
    write_values: Callable[[], None]
    blocks: list[str] = field(default_factory=lambda: [b.text for b in blocks_of(PAGE)])

    def block(self, *words: str) -> str:
        """The one block of the page that has all these words, with the operator's own names."""
        (text,) = (text for text in self.blocks if all(word in text for word in words))
        for theirs, own in self.own.items():
            text = text.replace(theirs, own)
        return text

    def do(self, text: str) -> str:
        """Run these commands; what they print."""
        done = subprocess.run(
            ["bash", "-ec", text],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\n{done.stdout}"
        return done.stdout

    def run(self, name: str, command: str, *variables: str) -> str:
        """Start the page's first run with another command, and more job variables; its id."""
        text = (
            self.block("container-job", "nvidia-smi")
            .replace('"echo GPUs"', shlex.quote(command))
            .rstrip()
        )
        small = "--job-variable cpu_per_gpu=0.1 --job-variable memory_gib_per_gpu=0.5"
        further = " ".join(f"--job-variable {variable}" for variable in variables)
        printed = self.do(f"{text} --flow-run-name='{name}' {small} {further}")
        (found,) = (line for line in printed.splitlines() if "UUID:" in line)
        return found.rpartition(" ")[2]

    def prints(self, text: str, words: str) -> None:
        """Repeat these commands until they print the words."""
        wait_for(lambda: words in self.do(f"{text.rstrip()} || true"), words, PATIENCE_S)

    def let_go(self, job: str) -> None:
        """Let a run with the command `WAITING` end."""
        self.do(f"kubectl -n {RUNS} exec job/{job} -- touch /tmp/go")

    def jobs(self) -> list[tuple[str, bool]]:
        """The Jobs of the pool, and whether each has a pod that runs."""
        found = json.loads(self.do(f"kubectl -n {RUNS} get jobs -l {POOL_LABEL} -o json"))
        return [
            (job["metadata"]["name"], bool(job["status"].get("active"))) for job in found["items"]
        ]

    def offer_gpus(self, count: int) -> None:
        """What a device plugin does that loses GPUs. A kubelet without one, as here, makes the
        allocatable GPUs those of the capacity."""
        amount = {GPU: str(count)}
        status = json.dumps({"status": {"capacity": amount, "allocatable": amount}})
        self.do(f"kubectl patch node {NODE} --subresource=status --patch '{status}'")

    def objects_of_release(self) -> set[str]:
        """What there is of the release in the cluster, as `kind/name`."""
        label = f"app.kubernetes.io/instance={WORKER}"
        found = self.do(f"kubectl get {KINDS_OF_RELEASE} --all-namespaces -l {label} -o name")
        return set(found.split())

    def commands_of_removal(self) -> list[str]:
        """The commands in the page's table of what `helm uninstall` leaves."""
        commands = re.findall(r"^\|.*\| `(kubectl[^`]+)` \|$", PAGE.read_text(), re.MULTILINE)
        assert len(commands) == 4, commands
        return [command.replace("NAMESPACE", RUNS) for command in commands]

    def workers(self) -> set[str]:
        """The names of the workers' pods."""
        label = "app.kubernetes.io/component=worker"
        return set(self.do(f"kubectl -n {WORKER} get pods -l {label} -o name").split())

    def state(self, run: str) -> str | None:
        """The name of a run's state; None: a busy server does not say, and is asked again."""
        answer = self.prefect.get(f"/flow_runs/{run}")
        return None if answer.is_error else str(answer.json()["state"]["name"])

    def becomes(self, run: str, *names: str) -> None:
        """Wait until a run is in one of these states."""
        wait_for(lambda: self.state(run) in names, f"{run} is {names}", PATIENCE_S)

    def says(self, run: str, words: str) -> None:
        """Wait until the log of a run has these words."""
        body = {"logs": {"flow_run_id": {"any_": [run]}}, "sort": "TIMESTAMP_ASC"}

        def is_said() -> bool:
            answer = self.prefect.post("/logs/filter", json=body)
            return not answer.is_error and words in "".join(
                each["message"] for each in answer.json()
            )

        wait_for(is_said, f"the page of {run} has {words!r}", PATIENCE_S)


@pytest.fixture
def prefect(server: PrefectServer) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture
def operator(
    cluster: Cluster, server: PrefectServer, prefect: httpx.Client, tmp_path: Path
) -> Iterator[Operator]:
    """With the page's placeholders replaced, and nothing installed yet."""
    if cluster.state is None:
        pytest.skip("the page's names may be those of an installation of this cluster")
    values, machine = tmp_path / "values.yaml", tmp_path / "machine.json"
    policy = tmp_path / "policy.yaml"
    # As `prefect-gpu doctor` and the worker's log ask for on such an old cluster.
    policy.write_text(POLICY.read_text().replace('version: "1.34"', 'version: "1.20"'))

    def write_values() -> None:
        probes = {"replicas": 1, "probes": {"enabled": True, "port": free_port()}}
        machine.write_text(json.dumps(values_of_this_machine(cluster, tmp_path) | probes))

    write_values()
    ledger = f"sqlite:///{tmp_path}/ledger.db"
    operator = Operator(
        cluster,
        prefect,
        tmp_path,
        own={
            "pip install .\n": "",
            "http://prefect-server.prefect:4200/api": server.api_url,
            "postgresql+psycopg://gpu:PASSWORD@postgres.prefect:5432/gpu_ledger": ledger,
            "s3://BUCKET/checkpoints": f"file://{tmp_path}/checkpoints",
            "REGISTRY/prefect-gpu:1": IMAGE,
            "nvidia/cuda:12.6.2-base-ubuntu24.04": IMAGE,
            "nvidia-smi": "echo GPUs",
            "infra/helm/policy.yaml": str(policy),
            "--values values.yaml": f"--values {values} --values {machine}",
            "NODE_NAME": NODE,
        },
        environment={
            **os.environ,
            **server.environment,
            "KUBECONFIG": str(cluster.kubeconfig),
            "PATH": f"{helm_tools()}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        write_values=write_values,
    )
    values.write_text(operator.block("image: {repository", "ledger: {existing"))
    yield operator
    installed = json.loads(operator.do("helm list --all-namespaces --output json"))
    if any(release["name"] == WORKER for release in installed):
        print(operator.do("kubectl -n prefect-gpu logs deploy/prefect-gpu-worker --tail=200"))
        operator.do("helm uninstall prefect-gpu --namespace prefect-gpu")
    operator.do(f"kubectl delete namespace {WORKER} {RUNS} --ignore-not-found --wait=false")


@pytest.mark.timeout(1800)
def test_the_page_leads_from_an_empty_cluster_to_a_first_run_and_to_its_removal(
    operator: Operator,
) -> None:
    install(operator)
    run_first(operator)
    lose_gpus(operator)
    upgrade_under_load(operator)
    remove(operator)


def install(operator: Operator) -> None:
    """Steps 2 to 4."""
    setup = operator.block("prefect-gpu setup", "--type gpu-kubernetes")
    for line in setup.splitlines():
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            operator.environment[name] = value
    assert "+ work pool" in operator.do(setup)
    operator.do(operator.block("helm install", "kubectl create namespace"))
    assert "gpu-pool-gpu" in operator.do("kubectl -n prefect-gpu get lease")
    operator.prints(operator.block("grep Scheduling"), f"Scheduling 8 × a10g on {NODE}")


def run_first(operator: Operator) -> None:
    """Step 5."""
    first = operator.run("first", "echo GPUs")
    operator.becomes(first, "Completed")
    operator.says(first, "GPUs")
    assert "failed  " not in operator.do(operator.block("exec deploy/prefect-gpu-worker"))


def lose_gpus(operator: Operator) -> None:
    """A condition ends a run and keeps others off the node; a device plugin keeps off some."""
    seen = operator.block("STATUSES", "HEALTHY")
    assert "Ready" in operator.do(seen)
    interrupted = operator.run("interrupted", WAITING)
    operator.becomes(interrupted, "Running")
    fail, heal = (
        operator.block("kubectl patch node", f'"status": "{status}"')
        for status in ("False", "True")
    )
    try:
        operator.do(fail)
        why = f"Node {NODE} has unhealthy GPUs: AcceleratedHardwareReady is False."
        operator.says(interrupted, why)
        assert "AcceleratedHardwareReady" in operator.do(seen)
        operator.becomes(interrupted, "WaitingForGpus")
    finally:
        operator.do(heal)
    operator.do(f"prefect flow-run cancel {interrupted}")
    operator.offer_gpus(7)
    whole = operator.run("whole", "echo all", "gpu_count=8")
    operator.becomes(whole, "WaitingForGpus", "ExceedsCluster")
    operator.offer_gpus(8)
    operator.becomes(whole, "Completed")


def upgrade_under_load(operator: Operator) -> None:
    """A run goes on, in the same Job, while another worker takes the place of the one before."""
    run = operator.run("during the upgrade", WAITING)
    operator.becomes(run, "Running")
    workers, jobs = operator.workers(), operator.jobs()
    (job,) = (name for name, active in jobs if active)
    operator.write_values()
    operator.do(operator.block("helm upgrade"))
    wait_for(lambda: workers.isdisjoint(operator.workers()), "the workers are new", PATIENCE_S)
    assert operator.jobs() == jobs
    operator.let_go(job)
    operator.becomes(run, "Completed")
    operator.says(run, "went on")


def remove(operator: Operator) -> None:
    """A run that is left goes on without a worker; what is left is in the page's table."""
    left = operator.run("left", WAITING)
    operator.becomes(left, "Running")
    jobs = operator.jobs()
    operator.do(operator.block("helm uninstall"))
    wait_for(lambda: not operator.workers(), "the workers are gone", PATIENCE_S)
    assert operator.jobs() == jobs
    wait_for(
        lambda: operator.objects_of_release() == {f"namespace/{RUNS}"},
        lambda: f"nothing else is left: {operator.objects_of_release()}",
        PATIENCE_S,
    )
    for command in reversed(operator.commands_of_removal()):
        operator.do(command)
    names = operator.do("kubectl get namespaces -o name").split()
    assert not {f"namespace/{WORKER}", f"namespace/{RUNS}"} & set(names)
