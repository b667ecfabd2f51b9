"""Prefect's events about the runs of a pool: they wake the cycle, which polls all the same."""

import logging
from collections.abc import Callable
from uuid import UUID

import anyio
from prefect.events.clients import get_events_subscriber
from prefect.events.filters import EventAnyResourceFilter, EventFilter, EventNameFilter

from gpu_core.worker.attempts.ending import ATTEMPT_FOLLOWS

# States of a run that can change what the next cycle decides. Our own states for waiting runs are
# not among them, or every message would wake the cycle that wrote it.
_WAKING_STATES = (
    *("Scheduled", "AwaitingRetry", "Resuming", "Cancelling", "Cancelled"),
    *ATTEMPT_FOLLOWS,
)

_RECONNECT_S = 5.0


async def listen_to_run_events(
    pool_id: Callable[[], UUID],
    note: Callable[[str], None],
    logger: logging.Logger | logging.LoggerAdapter[logging.Logger],
) -> None:
    """Call for every run that comes, ends or is cancelled, until this task is cancelled.

    Args:
        pool_id: The pool, as Prefect has it now.
        note: Called with the name of the state that a run has got.
        logger: Hears why no events come.
    """
    names = [f"prefect.flow-run.{state}" for state in _WAKING_STATES]
    while True:
        try:
            events = EventFilter(
                event=EventNameFilter(name=names),
                any_resource=EventAnyResourceFilter(id=[f"prefect.work-pool.{pool_id()}"]),
            )
            async with get_events_subscriber(filter=events) as subscriber:
                async for event in subscriber:
                    note(event.event.rpartition(".")[2])
        except Exception as error:
            # Polling continues meanwhile.
            logger.debug("Unable to subscribe to events: %s", error)
        await anyio.sleep(_RECONNECT_S)
