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
    parser.add_argument("name", choices=components.NAMES)
    options = parser.parse_args()
    kept = settings.load(options.state)
    if options.action != "start":
        control.stop(kept, options.name)
    if options.action != "stop":
        control.start(kept, options.name)
        control.wait_until_ready(kept, options.name)


if __name__ == "__main__":
    main()
