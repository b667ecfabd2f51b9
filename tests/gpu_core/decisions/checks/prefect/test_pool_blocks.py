"""The names of a pool's blocks: what Prefect takes, and never the same for two pools."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prefect.types.names import BlockDocumentName
from pydantic import TypeAdapter

from gpu_core.decisions.checks.prefect.pool_blocks import pool_block_name, pool_block_names


@pytest.mark.parametrize(
    ("pool", "want"),
    [
        pytest.param("gpu", "gpu", id="as it is"),
        pytest.param("gpu-2", "gpu-2", id="with a dash"),
        pytest.param("GPU Pool_1", "gpu-pool-1-81c6fc61", id="readable, with its hash"),
        pytest.param("grafik-ü", "grafik-737582db", id="letters that Prefect does not take"),
        pytest.param("日本", "pool-cf2abf0c", id="nothing readable"),
    ],
)
def test_the_name_says_the_pool(pool, want):
    assert pool_block_name(pool) == want


@given(st.text(min_size=1, max_size=40))
def test_prefect_takes_every_name(pool):
    name = pool_block_name(pool)
    assert TypeAdapter(BlockDocumentName).validate_python(name) == name


@given(st.lists(st.text("aA-_ 1", min_size=1, max_size=4), min_size=2, unique=True))
def test_two_pools_never_share_a_name(pools):
    assert len({pool_block_name(pool) for pool in pools}) == len(pools)


def test_the_shared_block_comes_last_and_once():
    assert pool_block_names("gpu") == ("gpu", "default")
    assert pool_block_names("default") == ("default",)
    assert pool_block_names(None) == ("default",)
