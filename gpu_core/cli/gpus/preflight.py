"""`prefect-gpu gpus preflight`: check a held GPU, and free it if it passes."""

import json
import time
from datetime import UTC, datetime
from typing import Any

from gpu_core.adapters.compute.check import compute_on
from gpu_core.adapters.nvml import GpuDiscoveryError, GpuSampler
from gpu_core.cli.gpus.command import open_held_gpus, require_held
from gpu_core.cli.shared.terminal import print_notice
from gpu_core.decisions.telemetry.preflight import NEEDED_SAMPLES, GpuPreflight, preflight
from gpu_core.decisions.telemetry.samples import GpuSample


def run_preflight(gpu_id: str, pause_s: float = 1.0, *, as_json: bool = False) -> int:
    """Check this GPU; 0: it passed, and is free.

    Args:
        gpu_id: A held GPU of this machine.
        pause_s: Between two samples.
        as_json: Print one JSON object instead of sentences.

    Raises:
        InvalidInput: It is not held, or a setting of the worker cannot be used.
    """
    gpus = open_held_gpus()
    require_held(gpus.read(), gpu_id)
    sampler = GpuSampler([gpu_id])
    try:
        samples = _sample(sampler, gpu_id)
        computation = compute_on(gpu_id)
        for _ in range(NEEDED_SAMPLES):
            time.sleep(pause_s)
            samples += _sample(sampler, gpu_id)
    except GpuDiscoveryError as error:
        print_notice(f"{gpu_id} is still held: {error}")
        return 1
    finally:
        sampler.close()
    found = preflight(gpu_id, samples, computation)
    if found.has_passed:
        gpus.free(gpu_id)
    if as_json:
        print(json.dumps(_document(gpu_id, found), indent=2))
    else:
        print("\n".join([*found.lines, _result(gpu_id, found)]))
    return 0 if found.has_passed else 1


def _result(gpu_id: str, found: GpuPreflight) -> str:
    if found.has_passed:
        return f"GPU {gpu_id} released. It is now available to flow runs."
    return f"{gpu_id} is still held. To release it, run: prefect-gpu gpus free {gpu_id}"


def _document(gpu_id: str, found: GpuPreflight) -> dict[str, Any]:
    return {
        "gpu_id": gpu_id,
        "has_passed": found.has_passed,
        "samples": found.samples,
        "driver_finding": None if found.finding is None else found.finding.reason,
        "computed_with": found.computation.library,
        "compared_bytes": found.computation.compared_bytes,
        "computation_fault": found.computation.fault,
    }


def _sample(sampler: GpuSampler, gpu_id: str) -> list[GpuSample]:
    found = sampler.sample(datetime.now(UTC))
    return [sample for sample in found if sample.gpu_id == gpu_id]
