"""Flows that are bound to a pool (`bind_flow_to_infrastructure`): calling one queues a run."""

import shlex
from typing import Any

from prefect.bundles import (
    aupload_bundle_to_storage,
    convert_step_to_command,
    create_bundle_for_flow_run,
)
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, WorkPool
from prefect.flows import Flow
from prefect.results import aresolve_result_storage
from prefect.states import Scheduled

from gpu_core.decisions.model.errors import InvalidInput


async def enqueue(client: PrefectClient, flow_run: FlowRun) -> None:
    """Let the scheduler have a run whose bundle was uploaded.

    Raises:
        Exception: Prefect's client raised it; the run stays as it is.
    """
    await client.set_flow_run_state(flow_run.id, Scheduled())


async def enqueue_again(
    client: PrefectClient, work_pool: WorkPool, flow: Flow[..., Any], flow_run: FlowRun
) -> None:
    """Queue a run again with the code of `flow` as it is now.

    The bundle goes where the run's command looks for it: Prefect's API changes no job variables of
    a run without a deployment.

    Args:
        client: Prefect's client.
        work_pool: The pool, for its storage of bundles.
        flow: What the run runs.
        flow_run: A run that was submitted as a bundle.

    Raises:
        InvalidInput: The run was not submitted as a bundle, or the pool has no storage for them.
        RuntimeError: The bundle cannot be uploaded. The run stays as it is.
    """
    step = work_pool.storage_configuration.bundle_upload_step
    if step is None:
        raise InvalidInput(
            "work_pool",
            "has no bundle storage",
            got=work_pool.name,
            allowed="storage of type s3, gcs or azure-blob-storage",
            remedy="configure it with `prefect work-pool storage configure s3 "
            f"{shlex.quote(work_pool.name)}`",
        )
    key = _bundle_key(flow_run)
    # Private, and checked at the worker's start: importing it there would come before the check.
    from prefect._internal.launchers import resolve_bundle_step_with_launcher

    step = resolve_bundle_step_with_launcher(step, getattr(flow, "launcher", None), "upload")
    flow = await _with_result_storage(flow, work_pool)
    bundle = create_bundle_for_flow_run(flow=flow, flow_run=flow_run)
    command = convert_step_to_command(step, key, quiet=True)
    await aupload_bundle_to_storage(
        bundle["bundle"], key, command, zip_path=bundle["zip_path"], upload_step=step
    )
    await client.set_flow_run_state(flow_run.id, Scheduled(message="Retrying"), force=True)


def _bundle_key(flow_run: FlowRun) -> str:
    command = (flow_run.job_variables or {}).get("command")
    words = shlex.split(command) if isinstance(command, str) else []
    if len(words) < 2 or words[-2] != "--key":
        raise InvalidInput(
            "flow_run",
            "was not submitted as a bundle",
            got=flow_run.name,
            remedy="submit the flow as a new run",
        )
    return words[-1]


async def _with_result_storage(flow: Flow[..., Any], work_pool: WorkPool) -> Flow[..., Any]:
    """The flow with the pool's storage for results, unless it has its own: as Prefect does it."""
    block_id = work_pool.storage_configuration.default_result_storage_block_id
    if block_id is None or flow.result_storage is not None:
        return flow
    storage = await aresolve_result_storage(block_id)
    return flow.with_options(result_storage=storage, persist_result=True)
