"""A run's word to its worker that it asks how small its micro-batch has to be."""

from pathlib import Path

from gpu_core.adapters.files.atomic_file import replace_file
from gpu_core.adapters.files.plain_file import read_plain_file

_NAME = "micro-batch"
_LARGEST_BYTES = 200


def write_micro_batch_report(run_dir: Path, attempt_id: str) -> None:
    """Note that this attempt has asked.

    Raises:
        OSError: The folder cannot be written.
    """
    replace_file(run_dir / _NAME, attempt_id.encode())


def has_asked_for_micro_batch(run_dir: Path, attempt_id: str) -> bool:
    """Has this attempt asked? False also where its word cannot be read."""
    try:
        return read_plain_file(run_dir / _NAME, _LARGEST_BYTES) == attempt_id.encode()
    except OSError:
        return False
