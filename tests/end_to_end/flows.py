"""The flows that end-to-end tests deploy. They wait for files, so that tests set their pace."""

import os
import threading
import time
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from gpu_core.runtime import checkpointing, micro_batch
from gpu_core.runtime.tracking import tracked_run
from tests.end_to_end import chaos_body


@flow
def do_nothing() -> None:
    """End at once."""


@flow
def fail() -> None:
    """Fail with a message of its own."""
    raise ValueError("the data set is empty")


@flow
def count_until_released(folder: str) -> int:
    """Count, saving now and then, until the file `release` is there; note where it started."""
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


@flow
def train_in_a_sweep(folder: str, skill: float) -> int:
    """Count, saving now and then, until a file of this skill says so; log the skill once."""
    # Its import takes as long as the rest of a run: each story's runs import this file.
    from mlflow import MlflowClient

    release = Path(folder, f"release-{skill}")
    with tracked_run() as run, checkpointing() as ckpt:
        number = ckpt.restore(0)
        MlflowClient().log_metric(run.info.run_id, "accuracy", skill)
        Path(folder, f"began-{skill}-{os.environ['PREFECT_GPU_ATTEMPT']}").write_text(str(number))
        while not release.exists():
            number += 1
            if ckpt.due():
                ckpt.save(number)
            time.sleep(0.02)  # the pace of the work, not a wait for something
    return number


@flow
def fail_and_note(folder: str) -> None:
    """Fail, and note that the body was executed."""
    with Path(folder, "bodies").open("a") as bodies:
        bodies.write(f"{os.environ['PREFECT_GPU_ATTEMPT']}\n")
    raise ValueError("the data set is empty")


@flow
def ask_prefect_when_released(folder: str) -> None:
    """Note that it started, and send Prefect's API one request when the file `release` is there.

    Raises:
        Exception: What the API did not answer with, which is noted too.
    """
    attempt = os.environ["PREFECT_GPU_ATTEMPT"]
    Path(folder, f"began-{attempt}").touch()
    while not Path(folder, "release").exists():
        time.sleep(0.02)
    # Otherwise Prefect's client repeats the question for a minute.
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
        try:
            with get_client(sync_client=True) as client:
                client.read_work_pools()
        except Exception as error:
            Path(folder, f"failed-{attempt}").write_text(repr(error))
            raise


@flow
def disturbed(folder: str, plan: dict[str, Any], keeps: bool) -> None:
    """Do a run of the chaos story; one that keeps checkpoints saves after each step."""
    if not keeps:
        chaos_body.work(folder, plan)
        return
    with checkpointing() as ckpt:
        chaos_body.work(folder, plan, ckpt.restore(0), lambda step: ckpt.save(step) is not None)


@flow
def count_and_hold(folder: str) -> None:
    """Count and save once, and then hold the GPUs without work until `release` is there."""
    with checkpointing() as ckpt:
        ckpt.due()
        ckpt.save(1)
    while not Path(folder, "release").exists():
        time.sleep(0.5)  # nothing is waited for that this test's machine must be quick for


def wait_for_nothing() -> None:
    """Wait for what never comes, as a collective does whose peer is gone."""
    threading.Event().wait()


@flow
def count_and_hang_once(folder: str) -> None:
    """Count and save; the first attempt then makes no more steps, the next one ends."""
    with checkpointing() as ckpt:
        number = ckpt.restore(0)
        Path(folder, f"began-{os.environ['PREFECT_GPU_ATTEMPT']}").write_text(str(number))
        for _ in range(5):
            number += 1
            ckpt.due()
        ckpt.save(number)
        if os.environ["PREFECT_GPU_ATTEMPT"] == "1":
            wait_for_nothing()
        while not Path(folder, "release").exists():
            ckpt.due()
            time.sleep(0.1)  # the pace of the work, not a wait for something


class OutOfMemoryError(RuntimeError):
    """What PyTorch raises, under its name and with its text."""


def _note_micro_batch(folder: str, name: str) -> int:
    batch = micro_batch(64)
    note = Path(folder, f"{name}-{os.environ['PREFECT_GPU_ATTEMPT']}")
    note.write_text(f"{batch.size} in {batch.accumulation_steps}")
    return batch.size


@flow
def train_in_little_gpu_memory(folder: str) -> None:
    """Train on a GPU that holds a micro-batch of 16; note which one it was given.

    Raises:
        OutOfMemoryError: It was given more.
    """
    if _note_micro_batch(folder, "training") > 16:
        raise OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
            "79.15 GiB of which 1.02 GiB is free."
        )


@flow
def exhaust_host_memory(folder: str) -> None:
    """Ask the machine for more memory than any has; note which micro-batch it was given.

    Raises:
        MemoryError: Of Python, always.
    """
    _note_micro_batch(folder, "exhausted")
    bytearray(1 << 50)
