"""NodePools: read where there may be some, once a minute, and without them all goes on."""

import logging

import anyio
import pytest

from gpu_core.adapters.kubernetes import KubernetesError
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.worker.kubernetes.cluster import node_pools
from gpu_core.worker.kubernetes.cluster.node_pools import NodePools

KARPENTER = KubernetesPolicy(provisioner="karpenter")
POOL = {"metadata": {"name": "ml"}}


class Api:
    """Answers one thing after the other."""

    def __init__(self, *answers):
        self.answers = list(answers)

    async def get(self, _path):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"items": answer}


def found(api, count, policy=KARPENTER):
    async def refreshed():
        pools = NodePools(api)
        return [await pools.refresh(policy) for _ in range(count)]

    return anyio.run(refreshed)


@pytest.fixture
def always(monkeypatch):
    """Every call reads."""
    monkeypatch.setattr(node_pools, "_POLL_S", 0.0)


def test_they_are_read_once_a_minute():
    assert found(Api([POOL]), 3) == [(POOL,)] * 3


def test_no_other_provisioner_has_them():
    assert found(Api(), 2, KubernetesPolicy()) == [(), ()]


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    ("status", "want_then", "want_warning"),
    [
        pytest.param(404, (), False, id="Karpenter was removed"),
        pytest.param(403, (), True, id="the worker has no right to read them"),
        pytest.param(503, (POOL,), False, id="the server is away for a moment"),
    ],
)
def test_what_cannot_be_read_is_not_planned_with(status, want_then, want_warning, caplog):
    error = KubernetesError(status, "Why", "no")
    with caplog.at_level(logging.WARNING, "prefect.gpu.node_pools"):
        assert found(Api([POOL], error), 2) == [(POOL,), want_then]
    assert bool(caplog.records) == want_warning
