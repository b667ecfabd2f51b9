"""Many logs at once, followed by the worker's own follower through a real API server."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import anyio

from gpu_core.adapters.kubernetes import KubernetesApi
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights
from gpu_core.worker.kubernetes.logs.log_position import LogLine
from gpu_core.worker.kubernetes.logs.output import Output, OutputFollower
from tests.support.cluster import Json

_LOOK_S = 1.0


@dataclass
class Told:
    """What was reported of one pod's output.

    Attributes:
        lines: In the order in which they came.
        at_s: When each came, in seconds since 1970.
        printed_s: When each was printed.
    """

    lines: list[str] = field(default_factory=list)
    at_s: list[float] = field(default_factory=list)
    printed_s: list[float] = field(default_factory=list)

    def take(self, line: LogLine) -> None:
        """Take the next line."""
        self.lines.append(line.text)
        self.at_s.append(time.time())
        self.printed_s.append(line.at.timestamp())


async def follow_all(
    api: KubernetesApi, output_api: KubernetesApi, namespace: str, pods: Sequence[str]
) -> dict[str, Told]:
    """Follow the output of these pods until each has ended and all of it is reported.

    Args:
        api: Says which pods have ended.
        output_api: The same cluster, for the output alone.
        namespace: Of the pods.
        pods: Their names; their container is `main`.
    """
    told = {pod: Told() for pod in pods}
    ended: set[str] = set()
    follower = OutputFollower(output_api, MissingRights())
    with anyio.CancelScope() as looking:
        async with anyio.create_task_group() as lookers:
            lookers.start_soon(_keep_looking, api, namespace, ended)
            async with anyio.create_task_group() as followers:
                for pod in pods:
                    output = Output(
                        key=pod,
                        namespace=namespace,
                        pod=pod,
                        container="main",
                        tell=told[pod].take,
                        is_over=lambda pod=pod: pod in ended,
                    )
                    followers.start_soon(follower.follow, output)
            looking.cancel()
    return told


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
