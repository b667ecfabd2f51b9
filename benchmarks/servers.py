"""Prefect servers to measure on: SQLite always, PostgreSQL where it is installed."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.postgresql import find_postgresql, postgresql_server
from tests.support.prefect_stack import PrefectServer, new_server

GPUS = 8


def policy(gpus: int) -> str:
    """A policy with this many virtual GPUs, as YAML."""
    return f"""
version: 1
prices: {{a100-80gb: {{on-demand: 3.6}}}}
virtual_gpus: {{gpu_type: a100-80gb, count: {gpus}}}
"""


POLICY = policy(GPUS)


def databases() -> tuple[str, ...]:
    """Which databases can Prefect's server use here?"""
    if find_postgresql() is not None:
        return ("SQLite", "PostgreSQL")
    print("No PostgreSQL server is installed: `make system-deps` installs it.")
    return ("SQLite",)


@contextmanager
def prefect_server(
    database: str, folder: Path, settings: Mapping[str, str] | None = None
) -> Iterator[PrefectServer]:
    """A Prefect server of the bench's own, on one of `databases()`."""
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        on_postgresql = database == "PostgreSQL"
        address = stack.enter_context(postgresql_server()) if on_postgresql else None
        yield stack.enter_context(new_server(folder, address, settings))
