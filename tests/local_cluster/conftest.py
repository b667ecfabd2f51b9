"""The local cluster's modules, which are programs of a folder and no package."""

import importlib
from collections.abc import Callable
from types import ModuleType

import pytest

from tests.support.cluster import LOCAL_CLUSTER


@pytest.fixture
def local_cluster_module(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Import one of them by its name."""
    monkeypatch.syspath_prepend(LOCAL_CLUSTER)
    return importlib.import_module
