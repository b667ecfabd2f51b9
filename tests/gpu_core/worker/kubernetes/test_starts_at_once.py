"""What comes together leaves room for the cycle."""

from prefect.client.orchestration import PrefectClient

from gpu_core.worker.attempts.settler import _SETTLED_AT_ONCE
from gpu_core.worker.kubernetes.logs.container_runs import _REPORTS_AT_ONCE
from gpu_core.worker.kubernetes.worker import GpuKubernetesWorker


def test_starts_ends_and_reports_leave_connections_of_prefects_client_to_the_cycle():
    """Otherwise each of its requests waits for one of them to be answered first."""
    client = PrefectClient("http://127.0.0.1:1/api")
    connections = client._client._transport._pool._max_connections
    at_once = GpuKubernetesWorker.starts_at_once + _SETTLED_AT_ONCE + _REPORTS_AT_ONCE
    assert 0 < at_once < connections
