"""On which GPU a process computes, without asking for more than is loaded."""

import sys
from types import SimpleNamespace

import pytest

from gpu_core.runtime.own_gpu import own_gpu_id

UUID = "5f2a1c3e-7d10-4b6f-9a2e-0c4d8b1e6f37"


def cuda(is_initialized=True, uuid=UUID):
    def properties(device):
        assert device == 2
        if uuid is None:
            raise RuntimeError("CUDA error: unspecified launch failure")
        return SimpleNamespace(uuid=uuid)

    return SimpleNamespace(
        cuda=SimpleNamespace(
            is_initialized=lambda: is_initialized,
            current_device=lambda: 2,
            get_device_properties=properties,
        )
    )


@pytest.mark.parametrize(
    ("torch", "visible", "want"),
    [
        pytest.param(cuda(), "all", f"GPU-{UUID}", id="PyTorch has used it"),
        pytest.param(cuda(is_initialized=False), "all", None, id="PyTorch has not used it"),
        pytest.param(cuda(uuid=None), "GPU-a", None, id="a GPU that does not answer"),
        pytest.param(SimpleNamespace(), "GPU-a", "GPU-a", id="something called torch"),
        pytest.param(None, "GPU-a", "GPU-a", id="a container with one GPU"),
        pytest.param(None, "GPU-a,GPU-b", None, id="a container with two"),
        pytest.param(None, "0", None, id="an index"),
        pytest.param(None, None, None, id="no container"),
    ],
)
def test_the_gpu_of_this_process(monkeypatch, torch, visible, want):
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert own_gpu_id({} if visible is None else {"NVIDIA_VISIBLE_DEVICES": visible}) == want
