"""One cluster for all tests here, and a namespace of its own for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster, Namespace, kubernetes, new_namespace


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below this folder needs a cluster."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A real Kubernetes with a GPU node: the one that is pointed to, or one of the tests' own."""
    with kubernetes() as running:
        yield running


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[Namespace]:
    """An empty namespace."""
    with new_namespace(cluster) as empty:
        yield empty
