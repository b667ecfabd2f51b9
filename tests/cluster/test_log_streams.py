"""More followed logs than a client has connections: all that containers print is told, once.

`make chaos` follows 2,000 (`PREFECT_GPU_LOG_STREAMS`).
"""

import os
import time

import anyio
import pytest

from benchmarks.report import percentile
from tests.support.cluster import Cluster, Namespace
from tests.support.log_streams import Told, follow_all
from tests.support.simulated_pods import bound_pod, connected, create_pods

STREAMS = int(os.environ.get("PREFECT_GPU_LOG_STREAMS", "500"))
LINES = 30
NODES = 5


@pytest.mark.timeout(240 + STREAMS)
def test_every_line_of_every_container_is_told_once_and_in_order(
    cluster: Cluster, namespace: Namespace
) -> None:
    with cluster.simulated_nodes(NODES, "--name=streams", "--gpus=0"):
        began_s = time.monotonic()
        told = anyio.run(_follow, cluster, namespace.name)
        took_s = time.monotonic() - began_s

    waits_s = [
        at_s - printed_s
        for of_pod in told.values()
        for at_s, printed_s in zip(of_pod.at_s, of_pod.printed_s, strict=True)
    ]
    print(
        f"\nlog streams: {len(waits_s):,} lines of {len(told):,} containers in {took_s:.0f} s, "
        f"p50 {percentile(waits_s, 0.5):.1f} s and at most {max(waits_s):.1f} s after printing"
    )
    want = [f"line {number}" for number in range(LINES)]
    wrong = {pod: of_pod.lines for pod, of_pod in told.items() if of_pod.lines != want}
    assert len(told) == STREAMS
    assert wrong == {}


async def _follow(cluster: Cluster, namespace: str) -> dict[str, Told]:
    api, output_api = await connected(cluster), await connected(cluster)
    pods = {
        # It prints for 6 s, ends 2 s after its last line, and some of them earlier than others.
        f"train-{number}": bound_pod(
            f"train-{number}", f"streams-{number % NODES}",
            log_lines=LINES, log_every_s=0.2, run_for_s=8 + number % 7,
        )
        for number in range(STREAMS)
    }  # fmt: skip
    try:
        await create_pods(api, namespace, pods.values())
        return await follow_all(api, output_api, namespace, list(pods))
    finally:
        await api.close()
        await output_api.close()
