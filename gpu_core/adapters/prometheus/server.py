"""An HTTP server for scrapes."""

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, start_http_server

from gpu_core.adapters.prometheus.exposition import Families
from gpu_core.decisions.telemetry.metrics import MetricFamily


class MetricsServer:
    """Answers every scrape with what is known at that moment, in threads of its own.

    Args:
        read: What is known; called in the server's threads.
        address: Where to listen; 0.0.0.0: all addresses.
        port: 0: any port that is free.

    Raises:
        OSError: The address cannot be used.
    """

    def __init__(self, read: Callable[[], Sequence[MetricFamily]], address: str, port: int) -> None:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(Families(read))
        self._server, self._thread = start_http_server(port, addr=address, registry=registry)
        self.port = self._server.server_port
        """The port on which it listens."""

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
