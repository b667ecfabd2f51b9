#!/usr/bin/env python3
"""Stops or starts one program of a cluster that is up, to see what happens without it."""

import argparse
from pathlib import Path

import components
import control
import settings


def main() -> None:
    """Read the command line, then stop and start what it names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("stop", "start", "restart"))
    parser.add_argument("state", type=Path, help="the folder that was given to up.py")
    parser.add_argument("name", help="such as kube-apiserver, kubelet or kubelet@NODE")
    options = parser.parse_args()
    kept = settings.load(options.state)
    names = [name for stage in components.stages(kept) for name in stage]
    if options.name not in names:
        parser.error(f"{options.name} is no program of this cluster; there are {', '.join(names)}")
    if options.action != "start":
        control.stop(kept, options.name)
    if options.action != "stop":
        control.start(kept, options.name)
        control.wait_until_ready(kept, options.name)


if __name__ == "__main__":
    main()
