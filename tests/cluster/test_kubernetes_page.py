"""docs/kubernetes.md, word for word: from an empty cluster to a first run.

Its commands are run as they stand, with an operator's own names in place of those that the page
says to replace. Not run are those that need a container daemon: the worker is this machine's
Python.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpu_core.cli.quickstart.services import free_port
from tests.cluster.installed_worker import values_of_this_machine
from tests.support.cluster import Cluster
from tests.support.helm import POLICY, helm_tools
from tests.support.page import blocks_of
from tests.support.prefect_stack import PrefectServer, wait_for

PAGE = Path("docs/kubernetes.md")
IMAGE = "docker.io/library/busybox:1"
WORKER, RUNS = "prefect-gpu", "prefect-gpu-runs"
PATIENCE_S = 300.0


@dataclass
class Operator:
    """Somebody who does what the page says.

    Attributes:
        own: What the operator writes in place of a text of the page.
        environment: Of all commands; what a block exports is part of it from then on.
    """

    cluster: Cluster
    server: PrefectServer
    folder: Path
    own: dict[str, str]
    environment: dict[str, str]
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

    def run(self, name: str, command: str) -> str:
        """Start the page's first run with another command; its id."""
        text = (
            self.block("container-job", "nvidia-smi")
            .replace('"echo GPUs"', shlex.quote(command))
            .rstrip()
        )
        small = "--job-variable cpu_per_gpu=0.1 --job-variable memory_gib_per_gpu=0.5"
        printed = self.do(f"{text} --flow-run-name='{name}' {small}")
        (found,) = (line for line in printed.splitlines() if "UUID:" in line)
        return found.rpartition(" ")[2]

    def prints(self, text: str, words: str) -> None:
        """Repeat these commands until they print the words."""
        wait_for(lambda: words in self.do(f"{text.rstrip()} || true"), words, PATIENCE_S)

    def state(self, run: str) -> str:
        """The name of a run's state."""
        with self.server.client() as client:
            return client.get(f"/flow_runs/{run}").json()["state"]["name"]

    def becomes(self, run: str, *names: str) -> None:
        """Wait until a run is in one of these states."""
        wait_for(lambda: self.state(run) in names, f"{run} is {names}", PATIENCE_S)

    def log(self, run: str) -> list[str]:
        """The lines of a run's log."""
        body = {"logs": {"flow_run_id": {"any_": [run]}}, "sort": "TIMESTAMP_ASC"}
        with self.server.client() as client:
            return [line["message"] for line in client.post("/logs/filter", json=body).json()]


@pytest.fixture
def operator(cluster: Cluster, server: PrefectServer, tmp_path: Path) -> Iterator[Operator]:
    """With the page's placeholders replaced, and nothing installed yet."""
    if cluster.state is None:
        pytest.skip("the page's names may be those of an installation of this cluster")
    values, machine = tmp_path / "values.yaml", tmp_path / "machine.json"
    policy = tmp_path / "policy.yaml"
    # As `prefect-gpu doctor` and the worker's log ask for on such an old cluster.
    policy.write_text(POLICY.read_text().replace('version: "1.34"', 'version: "1.20"'))
    port = free_port()
    probes = {"replicas": 1, "probes": {"enabled": True, "port": port}}
    machine.write_text(json.dumps(values_of_this_machine(cluster, tmp_path) | probes))
    ledger = f"sqlite:///{tmp_path}/ledger.db"
    operator = Operator(
        cluster,
        server,
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
        },
        environment={
            **os.environ,
            **server.environment,
            "KUBECONFIG": str(cluster.kubeconfig),
            "PATH": f"{helm_tools()}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
    )
    values.write_text(operator.block("image: {repository", "ledger: {existing"))
    yield operator
    installed = json.loads(operator.do("helm list --all-namespaces --output json"))
    if any(release["name"] == WORKER for release in installed):
        print(operator.do("kubectl -n prefect-gpu logs deploy/prefect-gpu-worker --tail=200"))
        operator.do("helm uninstall prefect-gpu --namespace prefect-gpu")
    operator.do(f"kubectl delete namespace {WORKER} {RUNS} --ignore-not-found --wait=false")


@pytest.mark.timeout(900)
def test_the_page_leads_from_an_empty_cluster_to_a_first_run(operator: Operator) -> None:
    setup = operator.block("prefect-gpu setup", "--type gpu-kubernetes")
    for line in setup.splitlines():
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            operator.environment[name] = value
    assert "+ work pool" in operator.do(setup)
    operator.do(operator.block("helm install", "kubectl create namespace"))
    assert "gpu-pool-gpu" in operator.do("kubectl -n prefect-gpu get lease")
    operator.prints(operator.block("grep Scheduling"), "Scheduling 8 × a10g on gpu-node-1")

    first = operator.run("first", "echo GPUs")
    operator.becomes(first, "Completed")
    wait_for(lambda: "GPUs" in operator.log(first), "its output is on its page")
    assert "failed  " not in operator.do(operator.block("exec deploy/prefect-gpu-worker"))
