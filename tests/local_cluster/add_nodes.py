#!/usr/bin/env python3
"""Adds nodes without kubelets to a cluster and keeps them alive until it is stopped.

One line says when all of them are ready. Ctrl-C or SIGTERM removes them.
"""

import argparse
import signal
from pathlib import Path

from arguments import add_shape, shape_of
from kube_api import Api
from simulated_nodes import SimulatedNodes
from waiting import wait_for

_READY_S = 300


def main() -> None:
    """Read the command line, add the nodes, keep them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kubeconfig", type=Path, help="what up.py printed")
    parser.add_argument("count", type=int, help="how many nodes")
    parser.add_argument("--name", default="simulated", help="the nodes are NAME-0, NAME-1, ...")
    parser.add_argument(
        "--renew-s", type=float, default=5,
        help="how often each says that it lives: a quarter of up.py's --node-grace-s (default 5)",
    )  # fmt: skip
    add_shape(parser)
    options = parser.parse_args()
    names = [f"{options.name}-{number}" for number in range(options.count)]
    # Before any thread starts: each inherits that these are blocked, and the wait below gets them.
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    nodes = SimulatedNodes(Api(options.kubeconfig), names, options.name, options.renew_s)
    try:
        nodes.create(shape_of(options))
        nodes.start()
        if not wait_for(nodes.all_are_ready, _READY_S):
            raise SystemExit(f"{options.count} nodes are not ready after {_READY_S} s")
        print(f"{options.count} nodes are ready", flush=True)
        signal.sigwait(ends)
    finally:
        nodes.delete()


if __name__ == "__main__":
    main()
