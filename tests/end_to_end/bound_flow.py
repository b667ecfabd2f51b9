"""A flow to submit as a bundle. It is pickled, so its file imports nothing of this source tree:
Prefect pickles by value what a flow's file imports from anywhere but an installation.
"""

import importlib
import os
import time
from pathlib import Path

from prefect import flow


@flow(persist_result=False)
def bound(folder: str) -> None:
    """Count until the file `release` is there, and note where each attempt started."""
    runtime = importlib.import_module("gpu_core.runtime")
    with runtime.checkpointing() as ckpt:
        number = ckpt.restore(0)
        Path(folder, f"began-{os.environ['PREFECT_GPU_ATTEMPT']}").write_text(str(number))
        while not Path(folder, "release").exists():
            number += 1
            if ckpt.due():
                ckpt.save(number)
            time.sleep(0.02)  # the pace of the work, not a wait for something
