"""`prefect-gpu gpus preflight`: check a held GPU, and free it if it passes."""

import sys
import time
from datetime import UTC, datetime

from gpu_core.adapters.compute.check import compute_on
from gpu_core.adapters.nvml import GpuDiscoveryError, GpuSampler
from gpu_core.cli.gpus.command import held_gpus, require_held
from gpu_core.decisions.telemetry.preflight import NEEDED_SAMPLES, preflight
from gpu_core.decisions.telemetry.samples import GpuSample


def run_preflight(gpu_id: str, pause_s: float = 1.0) -> int:
    """Check this GPU; 0: it passed, and is free.

    Args:
        gpu_id: A held GPU of this machine.
        pause_s: Between two samples.

    Raises:
        InvalidInput: It is not held, or a setting of the worker cannot be used.
    """
    gpus = held_gpus()
    require_held(gpus.read(), gpu_id)
    sampler = GpuSampler([gpu_id])
    try:
        samples = _sample(sampler, gpu_id)
        computation = compute_on(gpu_id)
        for _ in range(NEEDED_SAMPLES):
            time.sleep(pause_s)
            samples += _sample(sampler, gpu_id)
    except GpuDiscoveryError as error:
        print(f"{gpu_id} stays held: {error}", file=sys.stderr)
        return 1
    finally:
        sampler.close()
    found = preflight(gpu_id, samples, computation)
    print("\n".join(found.lines))
    if not found.has_passed:
        print(f"{gpu_id} stays held. A person frees it: prefect-gpu gpus free {gpu_id}")
        return 1
    gpus.free(gpu_id)
    print(f"{gpu_id} is free: runs may use it again.")
    return 0


def _sample(sampler: GpuSampler, gpu_id: str) -> list[GpuSample]:
    found = sampler.sample(datetime.now(UTC))
    return [sample for sample in found if sample.gpu_id == gpu_id]
