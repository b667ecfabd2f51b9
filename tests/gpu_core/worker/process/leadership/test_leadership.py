"""Which worker of a machine acts, also where the driver of its GPUs does not answer."""

from types import SimpleNamespace

import anyio

from gpu_core.adapters.nvml import GpuDiscoveryError
from gpu_core.worker.process.leadership import leadership as module
from gpu_core.worker.process.leadership.leadership import MachineLeadership

FREE = SimpleNamespace(acquire=lambda: True, is_held=False, holder=None)


def test_a_worker_stands_by_with_the_reason_until_the_driver_answers(monkeypatch):
    leadership = MachineLeadership(pool=FREE, devices=FREE)

    def hanging():
        raise GpuDiscoveryError("the NVIDIA driver has not answered in 60 s")

    monkeypatch.setattr(module, "machine_gpus", hanging)
    assert not anyio.run(leadership.acquire)
    assert leadership.why_not == "the NVIDIA driver has not answered in 60 s"
    monkeypatch.setattr(module, "machine_gpus", tuple)
    assert anyio.run(leadership.acquire)
    assert "answered" not in leadership.why_not
