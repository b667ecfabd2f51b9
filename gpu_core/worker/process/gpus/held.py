"""GPUs that no run may use until a person frees them: one file for each, in the state folder."""

import json
import logging
from dataclasses import asdict
from pathlib import Path

from gpu_core.adapters.files.atomic_file import make_folder, replace_file
from gpu_core.adapters.files.plain_file import read_plain_file
from gpu_core.decisions.model.gpu_health import HealthVerdict, HeldGpu, held_gpu_of
from gpu_core.decisions.telemetry.health import HealthFinding
from gpu_core.decisions.telemetry.xids import RULES_VERSION

_log = logging.getLogger("prefect.gpu.devices")

_FOLDER = "held-gpus"
_LARGEST_BYTES = 64 * 1024

# The message for a GPU whose file cannot be read: it stays held, as was decided.
_UNREADABLE = "its file could not be parsed"


class HeldGpus:
    """The held GPUs of this machine.

    Args:
        state_dir: The worker's state folder.
    """

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / _FOLDER
        self._last: dict[str, HeldGpu] = {}

    def read(self) -> dict[str, HeldGpu]:
        """The held GPUs, by id. Where the folder cannot be read: those of the last time."""
        try:
            paths = sorted(path for path in self._folder.iterdir() if path.suffix == ".json")
        except FileNotFoundError:
            paths = []
        except OSError as error:
            _log.warning("Failed to read held GPUs on this machine: %s", error)
            return self._last
        found = (_read(path) for path in paths)
        self._last = {held.gpu_id: held for held in found if held is not None}
        return self._last

    def hold(self, gpu_id: str, finding: HealthFinding) -> None:
        """Hold this GPU.

        Raises:
            OSError: The disk refused.
        """
        record = asdict(finding) | {
            "found_at": finding.found_at.isoformat(),
            "rules": RULES_VERSION,
        }
        make_folder(self._folder)
        replace_file(self._path(gpu_id), json.dumps(record, indent=2).encode())

    def free(self, gpu_id: str) -> bool:
        """Let runs use this GPU again; False: it was not held."""
        try:
            self._path(gpu_id).unlink()
        except FileNotFoundError:
            return False
        return True

    def _path(self, gpu_id: str) -> Path:
        # An id is NVML's, or what a person typed.
        if "/" in gpu_id or gpu_id.startswith("."):
            raise FileNotFoundError(gpu_id)
        return self._folder / f"{gpu_id}.json"


def _read(path: Path) -> HeldGpu | None:
    try:
        record = json.loads(read_plain_file(path, _LARGEST_BYTES))
        return held_gpu_of(path.stem, record)
    except FileNotFoundError:
        return None  # freed at this moment
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return HeldGpu(
            gpu_id=path.stem,
            verdict=HealthVerdict.DRAIN,
            reason=_UNREADABLE,
            remedy="check the GPU and free it",
            found_at=None,
        )
