"""The flows that end-to-end tests deploy. They wait for files, so that tests set their pace."""

import os
import time
from pathlib import Path

from prefect import flow

from gpu_core.runtime import checkpointing


@flow
def do_nothing() -> None:
    """End at once."""


@flow
def fail() -> None:
    """Fail with a message of its own."""
    raise ValueError("the data set is empty")


@flow
def count_until_released(folder: str) -> int:
    """Count, saving now and then, until the file `release` is there; note where it began."""
    release = Path(folder, "release")
    with checkpointing() as ckpt:
        number = ckpt.restore(0)
        Path(folder, f"began-{os.environ['PREFECT_GPU_ATTEMPT']}").write_text(str(number))
        while not release.exists():
            number += 1
            if ckpt.due():
                ckpt.save(number)
            time.sleep(0.02)  # the pace of the work, not a wait for something
    Path(folder, "ended").write_text(str(number))
    return number
