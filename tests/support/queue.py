"""Readers of the queue and the deployments of a Prefect server that is a value in memory."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from gpu_core.worker.attempts.run_faults import RunFaults
from gpu_core.worker.pending.deployment_reader import DeploymentReader
from gpu_core.worker.pending.queue_reader import QueueReader


@asynccontextmanager
async def queue_reader(
    server: Any,
    turn: anyio.Lock | None = None,
    held: Callable[[], Iterable[str]] = tuple,
    wake: Callable[[], None] = lambda: None,
    patience_s: float = 600.0,
) -> AsyncIterator[QueueReader]:
    """Reads all queues of the pool `gpus` of this server; waits for it, however busy it is."""
    async with anyio.create_task_group() as tasks:
        reader = QueueReader(
            client=server,
            pool="gpus",
            queues=(),
            turn=turn or anyio.Lock(),
            faults=RunFaults(),
            held=held,
            tasks=tasks,
            wake=wake,
        )
        reader._reads._patience_s = patience_s
        yield reader
        tasks.cancel_scope.cancel()


def fixed_deployments(server: Any) -> DeploymentReader:
    """Reads each deployment of this server once, and never again."""
    nowhere = anyio.create_task_group()
    return DeploymentReader(server, nowhere, lambda: None)


@asynccontextmanager
async def deployment_reader(
    server: Any, wake: Callable[[], None] = lambda: None, patience_s: float = 600.0
) -> AsyncIterator[DeploymentReader]:
    """Reads the deployments of this server; waits for it, however busy it is."""
    async with anyio.create_task_group() as tasks:
        reader = DeploymentReader(server, tasks, wake)
        reader._reads._patience_s = patience_s
        yield reader
        tasks.cancel_scope.cancel()
