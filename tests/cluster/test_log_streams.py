"""More followed logs than a client has connections: all that containers print is logged, once.

`make chaos` follows 2,000 (`PREFECT_GPU_LOG_STREAMS`), and `make bench-cluster` measures them.
"""

import os
import time
from functools import partial

import anyio
import pytest

from benchmarks.report import percentile
from gpu_core.worker.kubernetes.logs.output import CONNECTIONS
from tests.support.cluster import Cluster, Namespace
from tests.support.log_streams import follow_new_pods, printing_pods

STREAMS = int(os.environ.get("PREFECT_GPU_LOG_STREAMS", "500"))
NODES = 5


@pytest.mark.timeout(240 + STREAMS)
def test_every_line_of_every_container_is_logged_once_and_in_order(
    cluster: Cluster, namespace: Namespace
) -> None:
    with cluster.simulated_nodes(NODES, "--name=streams", "--gpus=0"):
        nodes = [f"streams-{number}" for number in range(NODES)]
        pods = printing_pods(STREAMS, nodes, line_every_s=0.2)
        began_s = time.monotonic()
        reported = anyio.run(
            partial(follow_new_pods, cluster, namespace.name, pods, connections=CONNECTIONS)
        )
        took_s = time.monotonic() - began_s

    waits_s = [wait_s for of_pod in reported.values() for wait_s in of_pod.waits_s]
    print(
        f"\nlog streams: {len(waits_s):,} lines of {len(reported):,} containers in {took_s:.0f} s, "
        f"p50 {percentile(waits_s, 0.5):.1f} s and at most {max(waits_s):.1f} s after printing"
    )
    wrong = {pod: of_pod.lines for pod, of_pod in reported.items() if not of_pod.is_complete}
    assert len(reported) == STREAMS
    assert wrong == {}
