"""What `tests.support.preloaded` imports once, in the process that is forked."""

import gc
import sys

import prefect.cli.worker
import prefect.server.api.server
from prefect.plugins import load_prefect_collections

import gpu_core.cli.setup.command
from gpu_core.worker import WORKERS

__all__ = ["WORKERS", "gpu_core", "prefect"]

load_prefect_collections()
# The folder in which a command runs is no place of modules, whichever it is.
sys.path[:] = [path for path in sys.path if path]
# A fork's garbage collector writes into each object that it visits, which copies the memory.
gc.collect()
gc.freeze()
