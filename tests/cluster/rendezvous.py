"""What the ranks of a gang run in the rendezvous' stories: they meet, and sum up what each brings.

    python -m tests.cluster.rendezvous sockets|gloo [stay]

They know of each other what a gang's environment says: `MASTER_ADDR`, `MASTER_PORT`, `RANK` and
`WORLD_SIZE`. With `stay` the first attempt has no end of its own.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

# As long as tests wait for anything: the first node imports Prefect, and its machine may be busy.
_TOGETHER_WITHIN_S = 600
# The first often has something left to do when the others are done, such as writing the model.
_FIRST_STAYS_S = 5


def main() -> None:
    """Meet as the command line says."""
    # A container's first process is deaf to signals that it does not ask for.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    how, *more = sys.argv[1:]
    meet({"sockets": over_sockets, "gloo": over_gloo}[how])
    if more == ["stay"] and os.environ["PREFECT_GPU_ATTEMPT"] == "1":
        signal.pause()


def meet(all_reduce: Callable[[str, int, int], int]) -> None:
    """Sum up a number of each rank's own, and say what came out.

    Args:
        all_reduce: Takes the first rank's address, the own rank and the own number; the sum.
    """
    rank = int(os.environ["RANK"])
    first = again_until_it_works(lambda: socket.gethostbyname(os.environ["MASTER_ADDR"]))
    # Each has a bit of its own: the sum shows who was there, and that none came twice.
    total = all_reduce(first, rank, 1 << rank)
    # One write: torchrun's processes share the container's output.
    if rank == 0:
        time.sleep(_FIRST_STAYS_S)
    sys.stdout.write(f"rank {rank} of {os.environ['WORLD_SIZE']}, first at {first}, sum {total}\n")
    sys.stdout.flush()


def over_sockets(first: str, rank: int, number: int) -> int:
    """All-reduce with the standard library alone: each sends to the first, which sends the sum."""
    place = (first, int(os.environ["MASTER_PORT"]))
    if rank:
        with again_until_it_works(lambda: socket.create_connection(place)) as connection:
            connection.sendall(b"%d\n" % number)
            return int(connection.makefile().readline())
    with socket.create_server(place) as server:
        others = [server.accept()[0] for _ in range(int(os.environ["WORLD_SIZE"]) - 1)]
        total = number + sum(int(other.makefile().readline()) for other in others)
        for other in others:
            other.sendall(b"%d\n" % total)
            other.close()
    return total


def over_gloo(_first: str, _rank: int, number: int) -> int:
    """torch's own, which reads the environment itself."""
    import torch
    from torch import distributed

    distributed.init_process_group("gloo")
    total = torch.tensor([number])
    distributed.all_reduce(total)
    distributed.destroy_process_group()
    return int(total)


def again_until_it_works(action: Callable[[], Result]) -> Result:
    """The first node may come later: it has no name yet, or does not listen."""
    deadline = time.monotonic() + _TOGETHER_WITHIN_S
    while True:
        try:
            return action()
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)


if __name__ == "__main__":
    main()
