"""The command `prefect-gpu gpus`, which reads the state folder of this machine's worker."""

import json
import os
from collections.abc import Collection
from dataclasses import asdict

from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name, sentences
from gpu_core.worker.process.gpus.held import HeldGpus
from gpu_core.worker.startup.checks import read_settings


def show_held(*, as_json: bool) -> int:
    """Print the held GPUs, one a line.

    Raises:
        InvalidInput: A setting of the worker cannot be used.
    """
    found = list(open_held_gpus().read().values())
    if as_json:
        rows = [
            asdict(gpu) | {"found_at": gpu.found_at and gpu.found_at.isoformat()} for gpu in found
        ]
        print(json.dumps(rows, indent=2))
        return 0
    for gpu in found:
        since = "" if gpu.found_at is None else f" since {gpu.found_at:%Y-%m-%d %H:%M} UTC"
        print(f"{gpu.gpu_id}  {gpu.verdict}{since}: {sentences(gpu.reason, gpu.remedy)}")
    if not found:
        print("No held GPUs found on this machine.")
    return 0


def free_gpu(gpu_id: str) -> int:
    """Free this GPU.

    Raises:
        InvalidInput: It is not held, or a setting of the worker cannot be used.
    """
    gpus = open_held_gpus()
    require_held(gpus.read(), gpu_id)
    gpus.free(gpu_id)
    print(f"GPU {gpu_id} released. It is now available to flow runs.")
    return 0


def require_held(found: Collection[str], gpu_id: str) -> None:
    """Refuse a GPU that is none of these.

    Args:
        found: The held GPUs of this machine, by id.

    Raises:
        InvalidInput: It is not held.
    """
    if gpu_id not in found:
        raise InvalidInput(
            "GPU_ID",
            "is not a held GPU of this machine",
            got=gpu_id,
            allowed=listed(found) if found else "none is held",
            nearest=nearest_name(gpu_id, found),
        )


def open_held_gpus() -> HeldGpus:
    """Those in the folder that a worker with this environment uses.

    Raises:
        InvalidInput: A setting cannot be used.
    """
    settings, mistakes = read_settings(os.environ)
    if mistakes:
        raise mistakes[0]
    return HeldGpus(settings.resolved_state_dir())
