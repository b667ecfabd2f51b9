"""What is done to a cluster, its worker and Prefect while runs run."""

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import Attempt
from tests.support.cluster import Cluster, Json, KubectlFailed, Namespace
from tests.support.cuttable_line import HOST, CuttableLine
from tests.support.faults import Deed, Fault, Kind, Phase, phases_of
from tests.support.prefect_stack import Pool, PrefectServer
from tests.support.run_journal import Life, read_lives
from tests.support.simulated_pods import SET
from tests.support.waiting import wait_for

# What the node termination handler of AWS sets when a spot instance is about to be taken back.
_SPOT_TAINT = "aws-node-termination-handler/spot-itn"
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
# How long a fault waits for something to hit, and how often that is polled: a phase may be short.
_PATIENCE_S = 60.0
# Until Kubernetes and the worker have given up what was on a node.
_NODE_GONE_S = 240.0
_GLANCE_S = 0.02


class Missed(Exception):
    """There was nothing to hit."""


@dataclass
class Chaos:
    """Does the faults.

    Attributes:
        pools: All of them have workers on the same cluster.
        line: Between the worker and the API server.
        node_lines: Between kubelets and the API server, by node.
        runs: The flow runs that there are.
        submit_another: Submits one more run, and adds it to them.
        deeds: What was done, in its order.
    """

    pools: Sequence[Pool]
    server: PrefectServer
    namespace: Namespace
    line: CuttableLine
    node_lines: Mapping[str, CuttableLine] = field(default_factory=dict)
    runs: Sequence[str] = ()
    submit_another: Callable[[], object] = lambda: None
    deeds: list[Deed] = field(default_factory=list)

    def do(self, fault: Fault) -> None:
        """Wait until a run runs, and a moment more, and do it.

        Returns when what was stopped works again.
        """
        self._await(Phase.RUNNING)
        time.sleep(fault.wait_s)
        began_s = uptime_s()
        has_struck = True
        try:
            what = self._actions[fault.kind](fault)
        except Missed as reason:
            has_struck, what = False, str(reason)
        self.deeds.append(Deed(fault.kind, has_struck, what, uptime_s() - began_s))

    def lives(self) -> tuple[Life, ...]:
        """What the runs have noted until now."""
        return tuple(chain.from_iterable(read_lives(journal_of(pool)) for pool in self.pools))

    def attempts(self) -> dict[str, tuple[Attempt, ...]]:
        """All attempts of the runs, from the ledgers."""
        found: dict[str, tuple[Attempt, ...]] = {}
        for pool in self.pools:
            of_pool = pool.attempts_of(self.runs)
            found |= {run: attempts for run, attempts in of_pool.items() if attempts}
        return {run: found.get(run, ()) for run in self.runs}

    @property
    def _actions(self) -> Mapping[Kind, Callable[[Fault], str]]:
        return {
            Kind.WORKER_KILLED: self._kill_worker,
            Kind.POD_EVICTED: self._evict,
            Kind.POD_DELETED: self._delete_pod,
            Kind.JOB_DELETED: self._delete_job,
            Kind.KUBELET_STOPPED: self._stop_kubelet,
            Kind.NODE_DRAINED: self._drain_node,
            Kind.NODE_PARTED: self._part_node,
            Kind.NODE_SWITCHED_OFF: self._switch_node_off,
            Kind.API_SERVER_RESTARTED: self._restart_api_server,
            Kind.PREFECT_RESTARTED: self._restart_prefect,
            Kind.SPOT_TAKEN_BACK: self._take_spot_back,
            Kind.WATCHES_CUT: self._cut_watches,
            Kind.WATCHES_SILENT: self._silence_watches,
        }

    def _kill_worker(self, fault: Fault) -> str:
        # Nothing is asked to end by itself.
        needs_taint = fault.phase is Phase.STOP_REQUESTED
        if fault.phase in (Phase.ADMITTED, Phase.STARTED):
            self.submit_another()  # late in a story all others may have started
        with self._tainted() if needs_taint else nullcontext():
            come = self._await(fault.phase)
            pool = come or self.pools[0]
            pool.kill_worker()
        time.sleep(fault.lasts_s)
        pool.start_worker()
        if come is None:
            raise Missed(f"no run was {fault.phase}; killed all the same")
        return f"while a run was {fault.phase}"

    def _await(self, phase: Phase) -> Pool | None:
        """In which pool did an attempt come to this phase? None: in none."""
        deadline_s = uptime_s() + _PATIENCE_S
        with ExitStack() as opened:
            ledgers = [opened.enter_context(Ledger.open(pool.ledger_url)) for pool in self.pools]
            while uptime_s() < deadline_s:
                begun = {(life.run, life.attempt) for life in self.lives()}
                for pool, ledger in zip(self.pools, ledgers, strict=True):
                    of_runs = ledger.attempts_of(self.runs).values()
                    if phase in phases_of((a for of_run in of_runs for a in of_run), begun):
                        return pool
                time.sleep(_GLANCE_S)
        return None

    def _evict(self, fault: Fault) -> str:
        return self._with_pod(fault, self.namespace.evict)

    def _delete_pod(self, fault: Fault) -> str:
        return self._with_pod(
            fault, lambda pod: self.namespace.kubectl("delete", "pod", pod, "--wait=false")
        )

    def _delete_job(self, fault: Fault) -> str:
        def delete(pod: str) -> None:
            job = self.namespace.get("pod", pod)["metadata"]["labels"]["job-name"]
            self.namespace.kubectl("delete", "job", job, "--wait=false")

        return self._with_pod(fault, delete)

    def _with_pod(self, fault: Fault, action: Callable[[str], object]) -> str:
        deadline_s = uptime_s() + _PATIENCE_S
        why = "no pod ran"
        while uptime_s() < deadline_s:
            try:
                pods = self.namespace.get("pods", "--field-selector=status.phase=Running")["items"]
                if pods:
                    pod = pods[int(fault.draw * len(pods))]["metadata"]["name"]
                    action(pod)
                    return str(pod)
            except KubectlFailed as error:  # gone between the look and the deed
                why = str(error)
            time.sleep(_GLANCE_S)
        raise Missed(why)

    def _stop_kubelet(self, fault: Fault) -> str:
        nodes = self._machines()
        number = int(fault.draw * len(nodes))
        # The first node's goes by the program's name alone.
        kubelet = f"kubelet@{nodes[number]}" if number else "kubelet"
        self.namespace.cluster.stop(kubelet)
        time.sleep(fault.lasts_s)
        self.namespace.cluster.start(kubelet)
        return f"that of {nodes[number]}, back after {fault.lasts_s:.0f} s"

    def _machines(self) -> list[str]:
        """The nodes that have a kubelet."""
        found = self.namespace.cluster.get("nodes", f"--selector=!{SET}")["items"]
        return [node["metadata"]["name"] for node in found]

    def _drain_node(self, fault: Fault) -> str:
        nodes = self.namespace.cluster.nodes()
        node = nodes[int(fault.draw * len(nodes))]
        self.namespace.cluster.kubectl("cordon", node)
        try:
            pods = self._pods_on(node)
            for pod in pods:
                with suppress(KubectlFailed):  # it has ended and is gone
                    self.namespace.evict(pod["metadata"]["name"])
            time.sleep(fault.lasts_s)
        finally:
            self.namespace.cluster.kubectl("uncordon", node)
        return f"{node} with {len(pods)} pods"

    def _pods_on(self, node: str) -> list[Json]:
        unended = "status.phase!=Succeeded,status.phase!=Failed"
        return self.namespace.get("pods", f"--field-selector=spec.nodeName={node},{unended}")[
            "items"
        ]

    def _part_node(self, fault: Fault) -> str:
        node = self._node_with_line(fault)
        with self.node_lines[node].parted():
            time.sleep(fault.lasts_s)
        return f"{node}, for {fault.lasts_s:.0f} s"

    def _switch_node_off(self, fault: Fault) -> str:
        node, cluster = self._node_with_line(fault), self.namespace.cluster
        is_deleted = int(fault.draw * 1000) % 2 == 0
        with self.node_lines[node].parted():
            pods = self._pods_on(node)
            kill_pods([pod["metadata"]["uid"] for pod in pods])
            # What the node has started since then ends with it too.
            cluster.stop(f"kubelet@{node}")
            kill_pods([pod["metadata"]["uid"] for pod in self._pods_on(node)])
            wait_for(lambda: not is_ready(cluster, node), f"{node} is silent", _NODE_GONE_S)
            time.sleep(fault.lasts_s)
            if is_deleted:
                cluster.delete_node(node)
            else:
                cluster.taint(node, f"{_OUT_OF_SERVICE}=nodeshutdown:NoExecute")
            wait_for(lambda: not self._pods_on(node), f"no pod is on {node}", _NODE_GONE_S)
        cluster.start(f"kubelet@{node}")
        if not is_deleted:
            cluster.taint(node, f"{_OUT_OF_SERVICE}-")
        return f"{node} with {len(pods)} pods, {'deleted' if is_deleted else 'out of service'}"

    def _node_with_line(self, fault: Fault) -> str:
        if not self.node_lines:
            raise Missed("no kubelet has a line that can be cut")
        return sorted(self.node_lines)[int(fault.draw * len(self.node_lines))]

    def _restart_api_server(self, _: Fault) -> str:
        self.namespace.cluster.restart("kube-apiserver")
        return "answers again"

    def _restart_prefect(self, _: Fault) -> str:
        self.server.restart()
        return "answers again"

    def _take_spot_back(self, fault: Fault) -> str:
        with self._tainted() as node:
            time.sleep(fault.lasts_s)
        return node

    @contextmanager
    def _tainted(self) -> Iterator[str]:
        (node, *_) = self._machines()
        self.namespace.cluster.taint(node, f"{_SPOT_TAINT}=true:NoSchedule")
        try:
            yield node
        finally:
            self.namespace.cluster.taint(node, f"{_SPOT_TAINT}-")

    def _cut_watches(self, _: Fault) -> str:
        return _of_connections(self.line.cut())

    def _silence_watches(self, _: Fault) -> str:
        return _of_connections(self.line.silence())


def journal_of(pool: Pool) -> Path:
    """Where the runs of this pool note what happens to them."""
    return pool.folder / "shared" / "journal"


def _of_connections(count: int) -> str:
    if not count:
        raise Missed("the worker had no connection")
    return f"{count} connections"


def is_ready(cluster: Cluster, node: str) -> bool:
    """Has Kubernetes heard of this node recently?"""
    conditions = cluster.get("node", node)["status"]["conditions"]
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def kill_pods(uids: Collection[str]) -> None:
    """What the end of a machine is for the processes of its pods."""
    for process in psutil.process_iter():
        try:
            group = Path(f"/proc/{process.pid}/cgroup").read_text()
            if any(f"/pod{uid}/" in group for uid in uids):
                process.kill()
        except (OSError, psutil.Error):
            continue


@contextmanager
def cuttable(cluster: Cluster, folder: Path) -> Iterator[tuple[Cluster, CuttableLine]]:
    """The same cluster over a line that can be cut, with a kubeconfig of its own in the folder."""
    config = json.loads(
        cluster.kubectl("config", "view", "--raw", "--flatten", "--minify", "--output=json")
    )
    (known,) = config["clusters"]
    address = urlsplit(known["cluster"]["server"])
    with CuttableLine(address.port or 443) as line:
        known["cluster"]["server"] = f"{address.scheme}://{HOST}:{line.port}"
        kubeconfig = folder / "kubeconfig-over-line"
        kubeconfig.write_text(json.dumps(config))
        yield replace(cluster, kubeconfig=kubeconfig, api=None), line


@contextmanager
def kubelet_over_line(cluster: Cluster, node: str) -> Iterator[CuttableLine]:
    """Between the kubelet of this node and the API server, for as long as the cluster is used.

    Args:
        cluster: One of the tests' own, which ends with the block.
        node: Any but its first, whose kubelet has another name.
    """
    assert cluster.state is not None, "the cluster is not the tests' own"
    kubeconfig = cluster.state / "nodes" / node / "kubeconfig"
    config = json.loads(kubeconfig.read_text())
    (known,) = config["clusters"]
    address = urlsplit(known["cluster"]["server"])
    with CuttableLine(address.port or 443) as line:
        known["cluster"]["server"] = f"{address.scheme}://{HOST}:{line.port}"
        kubeconfig.write_text(json.dumps(config))
        cluster.restart(f"kubelet@{node}")
        yield line


def uptime_s() -> float:
    """The clock that the runs' journal is written by."""
    return float(Path("/proc/uptime").read_text().split()[0])
