"""A folder as a work pool's storage for bundles: `python -m tests.support.bundle_storage`.

Prefect 3.8 has steps for S3, GCS and Azure only. With a file at the end it is the step that
uploads, without one the step that executes.
"""

import argparse
import shutil
import sys
from pathlib import Path

from prefect.bundles.execute import execute_bundle_from_file

_STEP = "tests.support.bundle_storage"


def storage_configuration(folder: Path) -> dict:
    """What `prefect work-pool storage configure` would set for this folder.

    Both steps run in this interpreter: `uv run` would look for packages on an index.
    """
    folder.mkdir(parents=True, exist_ok=True)
    step = {_STEP: {"launcher": [sys.executable], "folder": str(folder)}}
    return {"bundle_upload_step": step, "bundle_execution_step": step}


def main() -> None:
    """Upload or execute as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("file", type=Path, nargs="?")
    options = parser.parse_args()
    if options.file is None:
        execute_bundle_from_file(str(options.folder / options.key))
    else:
        shutil.copy(options.file, options.folder / options.key)


if __name__ == "__main__":
    main()
