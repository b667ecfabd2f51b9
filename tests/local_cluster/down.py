#!/usr/bin/env python3
"""Brings a cluster down: its processes, mounts and control groups go, and its folder with them."""

import argparse
import shutil
import signal
from pathlib import Path

import cgroups
import control
import settings
from waiting import wait_for

_END_S = 60


def main() -> None:
    """Read the command line and bring the cluster down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("state", type=Path, help="the folder that was given to up.py")
    bring_down(parser.parse_args().state)


def bring_down(state: Path) -> None:
    """Bring down the cluster in this folder; where there is none, nothing happens.

    Raises:
        SystemExit: The folder is something else, or processes do not end.
    """
    if not state.exists():
        return
    try:
        kept = settings.load(state)
    except FileNotFoundError:
        raise SystemExit(f"{state} holds no cluster: it is left as it is") from None
    init = control.process_of(state, control.INIT)
    if init and not init.end(signal.SIGKILL, _END_S):
        raise SystemExit(f"process {init.pid} of the cluster in {state} does not end")
    # The kernel ends the namespace's processes before its first one is gone; their control groups
    # may need a moment more.
    if not wait_for(lambda: _cgroups_are_gone(kept), _END_S):
        raise SystemExit(f"control groups of the cluster in {state} are still in use")
    shutil.rmtree(state)


def _cgroups_are_gone(kept: settings.Settings) -> bool:
    return all(cgroups.delete(kept.cgroup(node)) for node in kept.nodes)


if __name__ == "__main__":
    main()
