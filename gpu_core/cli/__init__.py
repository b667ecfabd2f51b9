"""The command line: prefect-gpu. Exit code 0: done, 1: the answer is no, 2: wrong input."""

from gpu_core.cli.main import main

__all__ = ["main"]
