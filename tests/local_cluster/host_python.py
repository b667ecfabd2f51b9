#!/usr/bin/env python3
"""Prints what a pod needs to run this machine's Python: no image has to be built.

The pod sees the machine's libraries, the Python environment and the code, all read-only. What is
printed is JSON: `pod` goes into a pod's `spec`, `container` into its container, and `python` is the
command's first word. Prefect's base job template takes both under `job_configuration.job_manifest`.
"""

import argparse
import json
import os
import subprocess
from pathlib import Path

from images import BUSYBOX

# Where a program of the machine looks, and where that is. Debian's /lib is a link to /usr/lib.
_SYSTEM = {"/usr": "/usr", "/lib": "/usr/lib", "/lib64": "/usr/lib64"}
_CERTIFICATES = "/etc/ssl"
_ASK = "import sys; print(sys.prefix, sys.base_prefix, sep='\\n')"


def main() -> None:
    """Read the command line and print the fragment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "python", type=Path, help="an environment's Python, such as .venv/bin/python"
    )
    parser.add_argument("--code", type=Path, action="append", default=[], help="put on its path")
    options = parser.parse_args()
    # Not resolved: Python knows its environment by the link.
    print(json.dumps(fragment(options.python.absolute(), options.code), indent=2))


def fragment(python: Path, code: list[Path]) -> dict[str, object]:
    """What goes into the pod's spec, into its container, and before its command's arguments?"""
    code = [folder.resolve() for folder in code]
    mounts = _SYSTEM | {_CERTIFICATES: _CERTIFICATES}
    mounts |= {str(path): str(path) for path in [*_environment(python), *code]}
    mounts = {inside: outside for inside, outside in mounts.items() if Path(outside).exists()}
    names = {inside: f"host-{number}" for number, inside in enumerate(mounts)}
    return {
        "pod": {
            "hostNetwork": True,
            # On the host's network a pod has the host's names otherwise, not the cluster's.
            "dnsPolicy": "ClusterFirstWithHostNet",
            "volumes": [
                {"name": names[inside], "hostPath": {"path": outside}}
                for inside, outside in mounts.items()
            ],
        },
        "container": {
            "image": BUSYBOX,
            "imagePullPolicy": "IfNotPresent",
            "env": [{"name": "PYTHONPATH", "value": os.pathsep.join(map(str, code))}],
            "volumeMounts": [
                {"name": names[inside], "mountPath": inside, "readOnly": True} for inside in mounts
            ],
        },
        "python": str(python),
    }


def _environment(python: Path) -> list[Path]:
    """The folders of this Python and of the one that its environment was made from."""
    asked = subprocess.run([python, "-c", _ASK], check=True, capture_output=True, text=True)
    folders = [Path(line) for line in asked.stdout.split()]
    return [folder for folder in dict.fromkeys(folders) if not folder.is_relative_to("/usr")]


if __name__ == "__main__":
    main()
