"""What the NVIDIA driver says of a real GPU while it is idle, computes, and is idle again."""

import os
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest

from gpu_core.adapters.nvml import GpuSampler, GpuUsers
from gpu_core.decisions.catalog.gpu_types import GPU_TYPES
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.telemetry.samples import GpuSample
from gpu_core.worker.process.gpus.devices import local_nodes

pytestmark = pytest.mark.gpu

_ALLOCATED_BYTES = 8 * 2**30

# Says when it computes, and computes until its input ends.
_COMPUTING = """
import sys, threading, torch
held = torch.ones(8 * 2**30, dtype=torch.uint8, device="cuda")
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
(a @ a).sum().item()
print("computes", flush=True)
while not ended.is_set():
    for _ in range(50):
        a @ a
    torch.cuda.synchronize()
"""


def samples(sampler: GpuSampler, seconds: int) -> list[GpuSample]:
    """One sample a second."""
    found = []
    for _ in range(seconds):
        time.sleep(1.0)  # the rate of the sampler, which is what is measured
        (sample,) = sampler.sample(datetime.now(UTC))
        found.append(sample)
    return found


def show(title: str, line: list[GpuSample]) -> None:
    """Print the curve."""
    print(f"\n{title}: utilization, SM activity, power, memory, temperature, SM clock")
    for s in line:
        print(
            f"  {s.utilization_ratio} {s.sm_active_ratio} {s.power_w} W of {s.power_limit_w} "
            f"{s.memory_used_bytes} B {s.temperature_c} C {s.sm_clock_hz} Hz "
            f"{s.energy_j} J {s.pcie_sent_bytes_per_s} B/s {sorted(s.throttle_reasons or ())}"
        )


def test_the_curve_of_a_real_load(gpu):
    """Load shows in utilization, SM activity, power, energy and memory, and ends with it."""
    sampler = GpuSampler([gpu.uuid])
    try:
        sampler.sample(datetime.now(UTC))
        before = samples(sampler, 4)
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": gpu.uuid}
        with subprocess.Popen(
            [sys.executable, "-c", _COMPUTING],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == b"computes\n"
            users = GpuUsers()
            using = users.process_ids()[gpu.uuid]
            users.close()
            during = samples(sampler, 10)
            process.stdin.close()
            assert process.wait() == 0
        after = samples(sampler, 6)
    finally:
        sampler.close()
    for title, line in (("idle", before), ("computing", during), ("idle again", after)):
        show(title, line)
    assert process.pid in using
    loaded, idle = during[-5:], [before[-1], after[-1]]
    assert all(s.utilization_ratio is not None and s.utilization_ratio >= 0.9 for s in loaded)
    assert all(s.utilization_ratio == 0 for s in idle)
    assert min(s.power_w for s in loaded) > 2 * max(s.power_w for s in idle)
    taken = min(s.memory_used_bytes for s in loaded) - before[-1].memory_used_bytes
    assert _ALLOCATED_BYTES <= taken < 2 * _ALLOCATED_BYTES
    assert after[-1].memory_used_bytes - before[-1].memory_used_bytes < 2**28
    # The counter of energy and the readings of power are of the same thing.
    spent_j = loaded[-1].energy_j - loaded[0].energy_j
    watts = [s.power_w for s in loaded]
    elapsed_s = (loaded[-1].at - loaded[0].at).total_seconds()
    assert 0.7 * min(watts) * elapsed_s < spent_j < 1.3 * max(watts) * elapsed_s
    assert all(s.xids == () for s in [*before, *during, *after])
    if any(s.sm_active_ratio is not None for s in during):
        assert max(s.sm_active_ratio or 0 for s in loaded) > 0.5


def test_it_is_of_a_type_of_the_catalog(gpu):
    """A policy's prices find it."""
    (node,) = local_nodes(Policy(version=1))
    print(f"\n{gpu}\n{node}")
    assert node.gpu_ids == (gpu.uuid,)
    assert node.gpu_type in GPU_TYPES
