"""One cluster for all tests here, and a namespace of its own for each."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.cluster.pools import POLICY, kubernetes_pool
from tests.support.cluster import Cluster, Namespace, kubernetes, new_namespace
from tests.support.prefect_stack import Pool, PrefectServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below this folder needs a cluster, whose start counts to the first test's time."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            # A test's own mark goes before this one.
            item.add_marker(pytest.mark.timeout(2400))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A real Kubernetes with a GPU node: the one that is pointed to, or one of the tests' own."""
    with kubernetes("--gpus=8") as running:
        yield running


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[Namespace]:
    """An empty namespace."""
    with new_namespace(cluster) as empty:
        yield empty


@pytest.fixture(scope="session")
def server(prefect_on_postgresql: PrefectServer) -> PrefectServer:
    """The Prefect server, which pods reach: they use the network of this machine."""
    return prefect_on_postgresql


@pytest.fixture
def new_pool(
    server: PrefectServer, namespace: Namespace, tmp_path: Path
) -> Iterator[Callable[..., Pool]]:
    """Makes gpu-kubernetes pools; stops their workers afterwards."""
    pools: list[Pool] = []

    def make(
        policy: str = POLICY, packages: Sequence[Path] = (), sidecar: str | None = None
    ) -> Pool:
        folder = tmp_path / f"pool-{len(pools)}"
        pools.append(kubernetes_pool(server, namespace, folder, policy, packages, sidecar))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()
        pool.print_logs()
