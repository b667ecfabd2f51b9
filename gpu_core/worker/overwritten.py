"""What was said of a run at the moment at which the worker wrote its state."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import State


async def restore_overwritten(
    client: PrefectClient,
    flow_run_id: UUID,
    before: State[Any],
    written: State[Any],
    counts: Callable[[State[Any]], bool],
) -> bool:
    """Put back what was said of the run between our look and our write, such as Cancelled.

    Prefect has no conditional write, and accepts Scheduled for a run that has ended.

    Args:
        client: Prefect's.
        flow_run_id: The run.
        before: Its state as it was read.
        written: The state that was written.
        counts: Whether a state in between must not be lost.

    Returns:
        Whether one was put back.
    """
    states = await client.read_flow_run_states(flow_run_id)
    between = [
        state
        for state in states
        if state.id not in (before.id, written.id)
        and before.timestamp <= state.timestamp <= written.timestamp
        and counts(state)
    ]
    if not between:
        return False
    last = max(between, key=lambda state: state.timestamp)
    await client.set_flow_run_state(flow_run_id, last, force=True)
    return True
