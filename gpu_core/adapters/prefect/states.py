"""The states of flow runs, and ends that another state has overwritten."""

from collections.abc import Callable
from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, State


async def read_states(client: PrefectClient, run: FlowRun) -> list[State[Any]]:
    """All states of the run, the oldest first."""
    return sorted(await client.read_flow_run_states(run.id), key=lambda state: state.timestamp)


async def restore_overwritten(
    client: PrefectClient,
    run: FlowRun,
    written: State[Any],
    counts: Callable[[State[Any]], bool],
) -> bool:
    """Put back what was said of the run between our read and our write, such as Cancelled.

    Prefect has no conditional write, and accepts Scheduled for a run that has ended.

    Args:
        client: Prefect's.
        run: As it was read, with its state.
        written: The state that was written.
        counts: Whether a state in between must not be lost.

    Returns:
        Whether one was put back. Nothing is, where the run has another state by now.
    """
    before = run.state
    if before is None:
        return False
    # The server stamps a state before its request waits for the run's lock (Prefect 3.8,
    # `server/api/flow_runs.py`): what was overwritten can bear the later timestamp of the two.
    overwritten = [
        state
        for state in await read_states(client, run)
        if state.id not in (before.id, written.id)
        and before.timestamp <= state.timestamp
        and counts(state)
    ]
    if not overwritten:
        return False
    current = (await client.read_flow_run(run.id)).state
    if current is None or current.id != written.id:
        return False
    await client.set_flow_run_state(run.id, overwritten[-1], force=True)
    return True


async def restore_rescheduled(
    client: PrefectClient, run: FlowRun, counts: Callable[[State[Any]], bool]
) -> State[Any] | None:
    """Put back the end that `prefect flow-run execute` has overwritten by AwaitingRetry.

    On SIGTERM it reads the run's state and reschedules the run unless that is final (Prefect 3.8,
    `prefect/cli/flow_run.py`). A flow that completes between the two would be executed again.

    Args:
        client: Prefect's.
        run: As it was read, after a SIGTERM. No process of it lives.
        counts: Whether a state must not be lost.

    Returns:
        The state that was put back; None: nothing was overwritten.
    """
    # A person's retry has a message, in Prefect's UI as well as in the worker's own words.
    if run.state is None or run.state.name != "AwaitingRetry" or run.state.message:
        return None
    # One with a later timestamp was overwritten as well: the run's state is what was written last.
    overwritten = [state for state in await read_states(client, run) if state.id != run.state.id]
    if not overwritten or not counts(overwritten[-1]):
        return None
    await client.set_flow_run_state(run.id, overwritten[-1], force=True)
    return overwritten[-1]
