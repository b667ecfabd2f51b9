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
    """List the running and pending flow runs in a GPU work pool.

    Displays the latest state published by the worker. For running flow runs, this includes the
    allocated GPUs, the start time, the accrued cost and the time limit. For pending flow runs, it
    includes the queue position, the reason, the estimated start time and recommended actions.
    """
    load_prefect()
    from gpu_core.cli.queue.command import queue as run_queue

    return run_queue(pool, as_json=as_json)


def hold(flow_run: _FlowRun, /) -> int:
    """Prevent a pending flow run from starting by adding the gpu:hold tag."""
    return _set_tag(flow_run, HOLD_TAG, is_set=True)


def release(flow_run: _FlowRun, /) -> int:
    """Allow a held flow run to start by removing the gpu:hold tag."""
    return _set_tag(flow_run, HOLD_TAG, is_set=False)


def move_up(
    flow_run: _FlowRun,
    /,
    *,
    undo: Annotated[bool, flag("If set, remove the tag instead of adding it.")] = False,
) -> int:
    """Move a flow run to the front of its work queue by adding the gpu:first tag."""
    return _set_tag(flow_run, FIRST_TAG, is_set=not undo)


def _set_tag(flow_run: str, tag: str, *, is_set: bool) -> int:
    load_prefect()
    from gpu_core.cli.queue.run_tags import set_tag

    return set_tag(flow_run, tag, is_set=is_set)
