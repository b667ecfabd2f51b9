"""A training of two ranks in two pods, of which one hangs in its first attempt.

    python -m tests.cluster.hung_gang

Rank 0 is a flow, and rank 1 this command. They know of each other what a gang's environment says.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence

from gpu_core.runtime import Ranks, checkpointing
from tests.cluster.rendezvous import again_until_it_works

HANGS_AFTER = 40
STEPS = 60


def train() -> None:
    """Make steps, and save now and then. Rank 1 hangs once, and rank 0 waits for it."""
    rank = int(os.environ["RANK"])
    # As NVIDIA's container runtime does it: the tests' nodes count their GPUs, and have none.
    os.environ["NVIDIA_VISIBLE_DEVICES"] = f"GPU-of-rank-{rank}"
    hangs = rank == 1 and os.environ["PREFECT_GPU_ATTEMPT"] == "1"
    ranks = Ranks(rank=rank, count=int(os.environ["WORLD_SIZE"]), exchange=_all_gather_over(rank))
    with checkpointing(ranks=ranks) as ckpt:
        for step in range(ckpt.restore(0) + 1, STEPS + 1):
            if hangs and step > HANGS_AFTER:
                read_a_batch()
            time.sleep(0.2)  # the work
            if ckpt.due():
                ckpt.save(step)


def read_a_batch() -> None:
    """It never comes."""
    threading.Event().wait()


def _all_gather_over(rank: int) -> Callable[[int], Sequence[int]]:
    """How two ranks exchange numbers: over one connection, with the standard library alone."""
    place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if rank:
        connection = again_until_it_works(lambda: socket.create_connection(place))
    else:
        with socket.create_server(("", place[1])) as server:
            connection = server.accept()[0]
    lines = connection.makefile()

    def all_gather(number: int) -> Sequence[int]:
        connection.sendall(b"%d\n" % number)
        numbers = (number, int(lines.readline()))
        return numbers if rank == 0 else numbers[::-1]

    return all_gather


if __name__ == "__main__":
    train()
