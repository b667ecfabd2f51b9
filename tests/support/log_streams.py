"""Many logs at once, followed by the worker's own follower through a real API server."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import anyio

from gpu_core.adapters.kubernetes import KubernetesApi
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights
from gpu_core.worker.kubernetes.logs.log_position import LogLine
from gpu_core.worker.kubernetes.logs.output import ContainerOutput, OutputFollower
from tests.support.cluster import Cluster, Json
from tests.support.simulated_pods import bound_pod, connected, create_pods

LINES = 30
"""Each pod of `printing_pods` prints so many."""

_LOOK_S = 1.0
_WANT = [f"line {number}" for number in range(LINES)]


@dataclass
class Received:
    """What was reported of one pod's output.

    Attributes:
        lines: In the order in which they came.
        at_s: When each came, in seconds since 1970.
        printed_s: When each was printed.
    """

    lines: list[str] = field(default_factory=list)
    at_s: list[float] = field(default_factory=list)
    printed_s: list[float] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Is it all that its pod prints, each line once and in order?"""
        return self.lines == _WANT

    @property
    def waits_s(self) -> list[float]:
        """How long after its printing each line came."""
        return [at - printed for at, printed in zip(self.at_s, self.printed_s, strict=True)]

    def take(self, line: LogLine) -> None:
        """Take the next line."""
        self.lines.append(line.text)
        self.at_s.append(time.time())
        self.printed_s.append(line.at.timestamp())


def printing_pods(count: int, nodes: Sequence[str], *, line_every_s: float) -> dict[str, Json]:
    """Pods of simulated nodes that print at the same time, by name.

    They end 2 s after their last line, and some of them later than others.
    """
    return {
        f"train-{number}": bound_pod(
            *(f"train-{number}", nodes[number % len(nodes)]),
            log_lines=LINES,
            log_every_s=line_every_s,
            run_for_s=LINES * line_every_s + 2 + number % 7,
        )
        for number in range(count)
    }


async def follow_new_pods(
    cluster: Cluster, namespace: str, pods: Mapping[str, Json], *, connections: int | None
) -> dict[str, Received]:
    """Create these pods and follow their output to its end, over a client of its own.

    Args:
        connections: How many logs are read at a time; None: as many as the client allows.
    """
    api, output_api = await connected(cluster), await connected(cluster)
    follower = OutputFollower(
        output_api, MissingRights(), connections=len(pods) if connections is None else connections
    )
    try:
        await create_pods(api, namespace, pods.values())
        return await _follow_all(api, follower, namespace, list(pods))
    finally:
        await api.close()
        await output_api.close()


async def _follow_all(
    api: KubernetesApi, follower: OutputFollower, namespace: str, pods: Sequence[str]
) -> dict[str, Received]:
    """Follow the output of these pods until each has ended and all of it is reported.

    Args:
        api: Says which pods have ended.
        follower: Reads the output.
        namespace: Of the pods.
        pods: Their names; their container is `main`.
    """
    reported = {pod: Received() for pod in pods}
    ended: set[str] = set()
    with anyio.CancelScope() as looking:
        async with anyio.create_task_group() as lookers:
            lookers.start_soon(_keep_looking, api, namespace, ended)
            async with anyio.create_task_group() as followers:
                for pod in pods:
                    output = ContainerOutput(
                        key=pod,
                        namespace=namespace,
                        pod=pod,
                        container="main",
                        emit=reported[pod].take,
                        is_over=lambda pod=pod: pod in ended,
                    )
                    followers.start_soon(follower.follow, output)
            looking.cancel()
    return reported


async def _keep_looking(api: KubernetesApi, namespace: str, ended: set[str]) -> None:
    while True:
        ended |= {pod["metadata"]["name"] for pod in await read_pods(api, namespace) if over(pod)}
        await anyio.sleep(_LOOK_S)


async def read_pods(api: KubernetesApi, namespace: str) -> list[Json]:
    """All pods of the namespace."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    return [pod async for page, _ in api.pages(path) for pod in page]


def over(pod: Json) -> bool:
    """Has it ended?"""
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def started_s(pod: Json) -> float:
    """When did a pod on a simulated node start, in seconds since 1970?"""
    return datetime.fromisoformat(pod["status"]["startTime"]).timestamp()
