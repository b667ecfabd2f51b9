"""Which pool's ledger a command reads, and what it says where none can be found."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace

import pytest
from prefect.client.schemas.filters import WorkPoolFilter
from prefect.exceptions import ObjectNotFound

from gpu_core.adapters.prefect.paging import PAGE
from gpu_core.cli.cost import pool_ledger
from gpu_core.cli.cost.pool_ledger import ledger_of_pool
from gpu_core.decisions.model.errors import InvalidInput

_ADDRESS = "sqlite:///ledger.db"
_MANY = {f"a-{number}": "gpu-kubernetes" for number in range(PAGE)}
"""Pools that come before `gpu` by name: as many as the server gives in an answer."""


class _Server:
    """A Prefect server with these pools, by type, and ledger blocks of these names."""

    def __init__(self, pools: Mapping[str, str], blocks: tuple[str, ...]) -> None:
        self._pools = pools
        self._blocks = blocks

    async def read_work_pools(
        self, limit: int, offset: int, work_pool_filter: WorkPoolFilter
    ) -> list[SimpleNamespace]:
        assert work_pool_filter.type is not None
        wanted = work_pool_filter.type.any_ or ()
        found = [
            SimpleNamespace(name=name, type=kind)
            for name, kind in sorted(self._pools.items())
            if kind in wanted
        ]
        return found[offset : offset + limit]

    async def read_block_document_by_name(
        self, name: str, _slug: str, *, include_secrets: bool
    ) -> SimpleNamespace:
        assert include_secrets
        if name not in self._blocks:
            raise ObjectNotFound(Exception(name))
        return SimpleNamespace(data={"url": f"{_ADDRESS}?{name}"})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> type[_Server]:
    def ask_of(pools: Mapping[str, str], *blocks: str) -> None:
        found = _Server(pools, blocks)
        monkeypatch.setattr(pool_ledger, "ask", lambda question: asyncio.run(question(found)))

    return ask_of


@pytest.mark.parametrize(
    ("pool", "pools", "blocks", "want"),
    [
        pytest.param(None, {"a": "gpu-process", "p": "process"}, ("a",), "a", id="the only one"),
        pytest.param(
            None, {"a": "gpu-process", "gpu": "gpu-kubernetes"}, ("a", "gpu"), "gpu", id="gpu"
        ),
        pytest.param("a", {"a": "gpu-process"}, ("a", "default"), "a", id="its own"),
        pytest.param(None, _MANY | {"gpu": "gpu-process"}, ("gpu",), "gpu", id="of hundreds"),
        pytest.param("a", {"a": "gpu-process"}, ("default",), "default", id="of all pools"),
    ],
)
def test_the_ledger_is_that_of_the_pool(server, pool, pools, blocks, want) -> None:
    server(pools, *blocks)
    assert ledger_of_pool(pool) == f"{_ADDRESS}?{want}"


@pytest.mark.parametrize(
    ("pool", "pools", "want"),
    [
        pytest.param(
            None,
            {"a": "gpu-process", "b": "gpu-process"},
            "--pool is required, because this Prefect server does not have exactly one GPU work "
            "pool. Allowed: a, b. "
            "Add --pool, or name a ledger with --ledger or --ledger-file.",
            id="two pools",
        ),
        pytest.param(
            "gpuu",
            {"gpu": "gpu-process"},
            "--pool is not a GPU work pool on this Prefect server (got 'gpuu'). Did you mean "
            "'gpu'? "
            "Allowed: gpu.",
            id="a misspelled pool",
        ),
        pytest.param(
            "gpu",
            {"gpu": "gpu-process"},
            "--pool does not have a ledger configured (got 'gpu'). "
            "Please run `prefect-gpu setup --pool gpu` or specify a ledger with --ledger.",
            id="no block",
        ),
    ],
)
def test_a_ledger_that_cannot_be_found(server, pool, pools, want) -> None:
    server(pools)
    with pytest.raises(InvalidInput) as raised:
        ledger_of_pool(pool)
    assert str(raised.value) == want
