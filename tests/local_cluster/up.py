#!/usr/bin/env python3
"""Brings up a small Kubernetes with GPUs in name, and prints the path of its kubeconfig."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import cgroups
import components
import control
import gpu_node
from arguments import add_shape, shape_of
from down import bring_down
from settings import Settings, free_name_server, free_ports, new_nodes

_HERE = Path(__file__).parent


def main() -> None:
    """Read the command line, bring the cluster up, say where."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("state", type=Path, help="a new folder that will hold all of the cluster")
    parser.add_argument("--binaries", type=Path, help="what build.sh printed; default: call it")
    parser.add_argument(
        "--node", action="append", help="a node's name; again for each more (default gpu-node-1)"
    )
    parser.add_argument(
        "--node-grace-s", type=int, default=40,
        help="a node that is silent for so long is not ready (default 40, as Kubernetes has it)",
    )  # fmt: skip
    parser.add_argument(
        "--lifeline", action="store_true", help="the cluster ends when standard input does"
    )
    add_shape(parser)
    options = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("a cluster needs root: it makes namespaces, mounts and control groups")
    if options.state.exists():
        parser.error(f"{options.state} exists: name a new folder, or bring it down first")
    binaries = options.binaries or _build()
    if not (binaries / "kubelet").exists():
        parser.error(f"--binaries {binaries} holds no kubelet: give what build.sh prints")
    shape = shape_of(options)
    settings = Settings(
        state=options.state.resolve(),
        binaries=binaries.resolve(),
        ports=free_ports(),
        nodes=new_nodes(options.node or ["gpu-node-1"]),
        node_labels=gpu_node.labels(shape),
        gpus=shape.gpus,
        name_server=free_name_server(),
        node_grace_s=options.node_grace_s,
    )
    bring_up(settings, sys.stdin.fileno() if options.lifeline else None)
    print(settings.kubeconfig)


def bring_up(settings: Settings, lifeline: int | None) -> None:
    """Start everything; where something fails, nothing is left but the message.

    Args:
        settings: What to bring up.
        lifeline: A file descriptor; the cluster ends when reading from it does. None: it stays.
    """
    settings.state.mkdir(parents=True)
    settings.save()
    try:
        components.write_files(settings)
        _give_to_caller(settings.kubeconfig)
        for node in settings.nodes:
            cgroups.create(settings.cgroup(node))
        if lifeline is None:
            lifeline = _endless(settings.state / "endless")
        control.create_namespaces(settings, lifeline)
        for together in components.stages(settings):
            for name in together:
                control.start(settings, name)
            for name in together:
                control.wait_until_ready(settings, name)
    except BaseException:
        bring_down(settings.state)
        raise


def _endless(path: Path) -> int:
    """A file to read from that neither ends nor has anything: its reader is its only writer."""
    os.mkfifo(path)
    return os.open(path, os.O_RDWR)


def _give_to_caller(path: Path) -> None:
    """The user who called sudo uses the cluster."""
    if caller := os.environ.get("SUDO_UID"):
        os.chown(path, int(caller), -1)


def _build() -> Path:
    built = subprocess.run([_HERE / "build.sh"], check=True, stdout=subprocess.PIPE, text=True)
    return Path(built.stdout.strip())


if __name__ == "__main__":
    main()
