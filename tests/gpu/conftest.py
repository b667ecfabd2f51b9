"""One NVIDIA GPU with torch, and pools whose runs have it. Elsewhere these tests are skipped."""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_core.adapters.nvml import DiscoveredGpu, discover_gpus
from gpu_core.adapters.nvml.driver import GpuDiscoveryError
from tests.support.prefect_stack import Pool, PrefectServer

FLOWS = "tests/gpu/flows.py"


@pytest.fixture(scope="session")
def gpu() -> DiscoveredGpu:
    """The first GPU of this machine. CUDA is left to the runs: a context here would occupy it."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is missing: `pip install torch`")
    try:
        found = discover_gpus()
    except GpuDiscoveryError as error:
        pytest.skip(f"no NVIDIA driver answers: {error}")
    if not found:
        pytest.skip("the NVIDIA driver has no GPU")
    return found[0]


@pytest.fixture
def new_pool(
    gpu: DiscoveredGpu, prefect_on_sqlite: PrefectServer, tmp_path: Path
) -> Iterator[Callable[[str], Pool]]:
    """Makes pools that have the GPU; stops their workers and runs afterwards."""
    pools: list[Pool] = []

    def make(policy: str) -> Pool:
        folder = tmp_path / f"pool-{len(pools)}"
        folder.mkdir()
        environment = {"CUDA_VISIBLE_DEVICES": gpu.uuid}
        pools.append(Pool(prefect_on_sqlite, folder, policy, environment=environment))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()
        pool.print_logs()
