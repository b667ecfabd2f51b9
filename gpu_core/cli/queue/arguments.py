"""The options of `prefect-gpu queue`, `hold`, `release` and `move-up`."""

from typing import Annotated

from cyclopts import Parameter

from gpu_core.cli.shared.options import AsJson, flag
from gpu_core.cli.shared.prefect_settings import load_prefect
from gpu_core.decisions.requests.runs.run_tags import FIRST_TAG, HOLD_TAG

_FlowRun = Annotated[str, Parameter(help="The ID or name of the flow run.")]


def queue(
    *,
    pool: Annotated[str, Parameter(help="The name of the work pool.")] = "gpu",
    as_json: AsJson = False,
) -> int:
    """Show which runs hold the GPUs of a pool, and which wait, why and until when.

    Prints what the pool's worker published last. Of runs that hold GPUs: since when, cost so far,
    until when. Of runs that wait: position, reason, expected start and what would help.
    """
    load_prefect()
    from gpu_core.cli.queue.command import queue as run_queue

    return run_queue(pool, as_json=as_json)


def hold(flow_run: _FlowRun, /) -> int:
    """Keep a run from starting (sets the tag gpu:hold)."""
    return _set_tag(flow_run, HOLD_TAG, is_set=True)


def release(flow_run: _FlowRun, /) -> int:
    """Let a held run start (removes the tag gpu:hold)."""
    return _set_tag(flow_run, HOLD_TAG, is_set=False)


def move_up(
    flow_run: _FlowRun,
    /,
    *,
    undo: Annotated[bool, flag("Remove the tag instead of adding it.")] = False,
) -> int:
    """Put a run before all others of the queue (sets the tag gpu:first)."""
    return _set_tag(flow_run, FIRST_TAG, is_set=not undo)


def _set_tag(flow_run: str, tag: str, *, is_set: bool) -> int:
    load_prefect()
    from gpu_core.cli.queue.run_tags import set_tag

    return set_tag(flow_run, tag, is_set=is_set)
