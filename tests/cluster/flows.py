"""A flow that notes what happens to it, for the stories that disturb it."""

import os
import re
import time
from pathlib import Path

from prefect import flow

from gpu_core.runtime import checkpointing
from tests.cluster import hung_gang, rendezvous

_POD = re.compile(r"/pods/([-0-9a-f]+)/")


@flow
def journaled(folder: str, steps: int) -> None:
    """Work and save half a second at a time; the journal is that of `journaled_run.sh`."""
    with checkpointing() as ckpt:
        step = ckpt.restore(0)
        note(folder, "begin", step)
        while step < steps:
            time.sleep(0.5)  # the work
            step += 1
            ckpt.save(step)
            note(folder, "step", step)
    note(folder, "end", step)


@flow
def meet_over_sockets() -> None:
    """Rank 0 of a gang whose other nodes run `tests.cluster.rendezvous`."""
    rendezvous.meet(rendezvous.over_sockets)


@flow
def meet_and_note(folder: str) -> None:
    """As `meet_over_sockets`, and the journal says in which attempt."""
    note(folder, "begin", 0)
    rendezvous.meet(rendezvous.over_sockets)


@flow
def lead_a_gang_that_hangs() -> None:
    """Rank 0 of a gang whose other node runs `tests.cluster.hung_gang`."""
    hung_gang.train()


def note(folder: str, what: str, step: int) -> None:
    """One line, whole: appends of this size are atomic."""
    now_s = Path("/proc/uptime").read_text().split()[0]
    run, attempt = os.environ["PREFECT__FLOW_RUN_ID"], os.environ["PREFECT_GPU_ATTEMPT"]
    pod = _POD.search(Path("/proc/self/mountinfo").read_text())
    with Path(folder, "journal").open("a") as journal:
        journal.write(f"{now_s} {what} {run} {attempt} {pod and pod[1]} {step}\n")
