"""`prefect-gpu setup`: pool, queues, blocks and deployments, as they should be. Safe to repeat."""

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import (
    BlockDocumentCreate,
    BlockDocumentUpdate,
    WorkPoolCreate,
    WorkPoolUpdate,
)
from prefect.client.schemas.objects import BlockDocument
from prefect.exceptions import ObjectNotFound

from gpu_core.adapters.policy_file import load_policy
from gpu_core.cli.project_file import check_project_file
from gpu_core.decisions.errors import GpuSchedulingError, InvalidInput, listed
from gpu_core.decisions.mlflow_access import MlflowAccess, split_credentials
from gpu_core.decisions.redaction import secrets_in
from gpu_core.worker import WORKERS, GpuKubernetesWorker, GpuProcessWorker
from gpu_core.worker.settings import GpuWorkerSettings

_DOCUMENT = "default"
# Job variables of a cluster's pool whose defaults are options too.
_DEFAULTS = ("namespace", "image")
_HAS_BLOCKS = Path("blocks").is_dir()
_DEPLOYMENT_FIELDS = (
    "entrypoint",
    "description",
    "tags",
    "parameters",
    "job_variables",
    "work_queue_name",
    "work_pool_name",
    "path",
    "pull_steps",
)


# In a process of its own, because the library must not import the project's blocks.
_REGISTER_BLOCKS = """
from blocks.checkpoint_store import CheckpointStore
from blocks.gpu_cluster import GpuCluster
from blocks.gpu_kubernetes_job import GpuKubernetesJob
from blocks.mlflow_tracking import MLflowTracking
from blocks.usage_ledger import UsageLedger
for block in (CheckpointStore, GpuCluster, GpuKubernetesJob, MLflowTracking, UsageLedger):
    block.register_type_and_schema()
"""


class SetupError(GpuSchedulingError):
    """The Prefect server or Prefect's own commands refused a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupOptions:
    """What to set up. None: leave what there is, create a local default where there is nothing."""

    pool: str
    worker_type: str | None = None
    """None: as the pool is, and for a new one the worker of one machine."""
    policy_path: Path
    prefect_file: Path
    namespace: str | None = None
    """Where runs of a cluster's pool run, unless they say otherwise."""
    image: str | None = None
    """What runs of a cluster's pool run in, unless they say otherwise."""
    ledger_url: str | None = field(default=None, repr=False)
    mlflow_uri: str | None = field(default=None, repr=False)
    mlflow_token: str | None = field(default=None, repr=False)
    checkpoint_uri: str | None = None


def setup(options: SetupOptions) -> int:
    """Make the Prefect server fit this project; print one line for each object.

    Raises:
        InvalidInput: The policy or the prefect.yaml is wrong; nothing was changed.
    """
    policy = load_policy(options.policy_path)
    if secrets_in(options.checkpoint_uri or ""):
        raise InvalidInput(
            "--checkpoint-uri",
            "has credentials in it",
            got=options.checkpoint_uri,
            remedy="give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment",
        )
    has_project = options.prefect_file.is_file()
    if has_project:
        check_project_file(options.prefect_file, options.pool, policy)
    try:
        asyncio.run(
            _objects(options, sorted(policy.priorities, key=lambda name: -policy.priorities[name]))
        )
    except httpx.ConnectError:
        raise InvalidInput(
            "PREFECT_API_URL", "cannot be reached", remedy="start one with `prefect server start`"
        ) from None
    if not has_project:
        print(f"  no deployments: there is no {options.prefect_file}")
        return 0
    return asyncio.run(_deployments(options))


async def _objects(options: SetupOptions, queues: list[str]) -> None:
    async with get_client() as client:
        worker_type = await _pool(client, options)
        await _queues(client, options.pool, queues)
        await _blocks(client, options, is_local=worker_type == GpuProcessWorker.type)


async def _pool(client: PrefectClient, options: SetupOptions) -> str:
    """Have the pool; its type."""
    name, worker_type = options.pool, options.worker_type
    try:
        pool = await client.read_work_pool(name)
    except ObjectNotFound:
        new_type = worker_type or GpuProcessWorker.type
        _check_defaults(options, new_type)
        template = WORKERS[new_type].get_default_base_job_template()
        await client.create_work_pool(
            WorkPoolCreate(
                name=name, type=new_type, base_job_template=_with_defaults(template, options)[0]
            )
        )
        _say("+", f"work pool {name}", f"created, of type {new_type}")
        return new_type
    if pool.type not in WORKERS or worker_type not in (None, pool.type):
        raise InvalidInput(
            "pool",
            f"{name!r} exists with another type",
            got=pool.type,
            allowed=worker_type or listed(WORKERS),
            remedy="choose another name with --pool",
        )
    _check_defaults(options, pool.type)
    template, new = _with_missing_variables(
        pool.base_job_template, WORKERS[pool.type].get_default_base_job_template()
    )
    template, changed = _with_defaults(template, options)
    news = [f"new job variables: {', '.join(new)}"] if new else []
    news += [f"default of {', '.join(changed)} changed"] if changed else []
    if not news:
        _say("=", f"work pool {name}", "unchanged")
        return pool.type
    await client.update_work_pool(name, WorkPoolUpdate(base_job_template=template))
    _say("~", f"work pool {name}", "; ".join(news))
    return pool.type


def _check_defaults(options: SetupOptions, worker_type: str) -> None:
    given = [name for name in _DEFAULTS if getattr(options, name) is not None]
    if given and worker_type != GpuKubernetesWorker.type:
        raise InvalidInput(
            given[0],
            f"is not a variable of a pool of type {worker_type}",
            allowed=f"a pool of type {GpuKubernetesWorker.type}",
            remedy="choose another pool with --pool, or leave it out",
        )


def _with_missing_variables(
    current: dict[str, Any], new: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """The template with the variables of the new one that it lacks, and their names.

    A pool keeps the form it was made with: what is new is put in, edits are kept.
    """
    properties = _properties(current)
    missing = {name: schema for name, schema in _properties(new).items() if name not in properties}
    return _with_properties(current, {**properties, **missing}), sorted(missing)


def _with_defaults(
    template: dict[str, Any], options: SetupOptions
) -> tuple[dict[str, Any], list[str]]:
    """The template with the defaults that are given, and the names of those that change."""
    properties = _properties(template)
    changed = {
        name: {**properties.get(name, {}), "default": value}
        for name in _DEFAULTS
        if (value := getattr(options, name)) is not None
        and properties.get(name, {}).get("default") != value
    }
    return _with_properties(template, {**properties, **changed}), sorted(changed)


def _properties(template: Mapping[str, Any]) -> dict[str, Any]:
    return dict(template.get("variables", {}).get("properties", {}))


def _with_properties(template: dict[str, Any], properties: dict[str, Any]) -> dict[str, Any]:
    return {**template, "variables": {**template.get("variables", {}), "properties": properties}}


async def _queues(client: PrefectClient, pool: str, names: list[str]) -> None:
    existing = {queue.name: queue for queue in await client.read_work_queues(work_pool_name=pool)}
    for priority, name in enumerate(names, start=1):
        queue = existing.get(name)
        if queue is None:
            await client.create_work_queue(name=name, work_pool_name=pool, priority=priority)
            _say("+", f"work queue {name}", f"created, priority {priority}")
            existing = {q.name: q for q in await client.read_work_queues(work_pool_name=pool)}
        elif queue.priority != priority:
            await client.update_work_queue(queue.id, priority=priority)
            _say("~", f"work queue {name}", f"priority {queue.priority} -> {priority}")
            existing = {q.name: q for q in await client.read_work_queues(work_pool_name=pool)}
        else:
            _say("=", f"work queue {name}", "unchanged")


async def _blocks(client: PrefectClient, options: SetupOptions, *, is_local: bool) -> None:
    """Have the blocks. Only runs of this machine find what lies in its folders."""
    if not _HAS_BLOCKS:
        _say("!", "blocks", "not registered: there is no folder blocks here")
        return
    _run("-c", _REGISTER_BLOCKS)
    home = GpuWorkerSettings().resolved_state_dir()
    ledger_url = f"sqlite:///{home / 'ledger.db'}" if is_local else None
    checkpoint_uri = str(home / "checkpoints") if is_local else None
    for slug, name, given, default in (
        ("gpu-usage-ledger", "url", options.ledger_url, ledger_url),
        ("gpu-checkpoint-store", "uri", options.checkpoint_uri, checkpoint_uri),
    ):
        document = await _document(client, slug)
        wanted = given or (default if document is None else None)
        await _block(client, slug, document, {name: wanted} if wanted else {})
    document = await _document(client, "gpu-mlflow-tracking")
    wanted_fields = _mlflow_fields(options, {} if document is None else document.data)
    await _block(client, "gpu-mlflow-tracking", document, wanted_fields)


def _mlflow_fields(options: SetupOptions, current: Mapping[str, Any]) -> dict[str, str | None]:
    """The block's fields: what is secret in the address stands in the fields that hide it."""
    address = options.mlflow_uri or current.get("tracking_uri")
    if not address:
        return {}
    names = ("username", "password", "token")
    is_new = options.mlflow_token or split_credentials(options.mlflow_uri or "")[1] is not None
    known = dict.fromkeys(names) if is_new else {name: current.get(name) for name in names}
    if options.mlflow_token:
        known["token"] = options.mlflow_token
    access = MlflowAccess.of(address, **known)
    return {
        "tracking_uri": access.tracking_uri,
        **{name: getattr(access, name) for name in names},
    }


async def _document(client: PrefectClient, slug: str) -> BlockDocument | None:
    try:
        return await client.read_block_document_by_name(_DOCUMENT, slug, include_secrets=True)
    except ObjectNotFound:
        return None


async def _block(
    client: PrefectClient,
    slug: str,
    document: BlockDocument | None,
    wanted: Mapping[str, str | None],
) -> None:
    """Have a block with these fields; fields that are not named stay as they are."""
    label = f"block {slug}/{_DOCUMENT}"
    if document is None:
        if not wanted:
            _say("!", label, "not created: no address given")
            return
        block_type = await client.read_block_type_by_slug(slug)
        schema = await client.get_most_recent_block_schema_for_block_type(block_type.id)
        if schema is None:
            raise RuntimeError(f"block type {slug} has no schema")
        await client.create_block_document(
            BlockDocumentCreate(
                name=_DOCUMENT,
                data=_known(wanted),
                block_type_id=block_type.id,
                block_schema_id=schema.id,
            )
        )
        _say("+", label, "created")
        return
    data = _known({**document.data, **wanted})
    before = _known(document.data)
    changed = sorted(name for name in {*data, *before} if data.get(name) != before.get(name))
    if not changed:
        _say("=", label, "unchanged")
        return
    await client.update_block_document(
        document.id, BlockDocumentUpdate(data=data, merge_existing_data=False)
    )
    _say("~", label, f"{', '.join(changed)} changed")


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


async def _deployments(options: SetupOptions) -> int:
    before = await _read_deployments(options.pool)
    _run(
        *("-m", "prefect", "--no-prompt", "deploy", "--all"),
        *("--prefect-file", str(options.prefect_file)),
    )
    after = await _read_deployments(options.pool)
    for name, now in sorted(after.items()):
        then = before.get(name)
        if then is None:
            _say("+", f"deployment {name}", "created")
            continue
        changed = [field for field in now if now[field] != then[field]]
        _say("~" if changed else "=", f"deployment {name}", ", ".join(changed) or "unchanged")
    return 0


async def _read_deployments(pool: str) -> dict[str, dict[str, Any]]:
    async with get_client() as client:
        found: dict[str, dict[str, Any]] = {}
        for deployment in await client.read_deployments():
            if deployment.work_pool_name != pool:
                continue
            flow = await client.read_flow(deployment.flow_id)
            fields = {field: getattr(deployment, field) for field in _DEPLOYMENT_FIELDS}
            fields["schedules"] = [
                (schedule.slug, str(schedule.schedule), schedule.active)
                for schedule in deployment.schedules
            ]
            found[f"{flow.name}/{deployment.name}"] = fields
        return found


def _run(*arguments: str) -> None:
    """A Python process in the project's folder, quietly; what it says is shown when it fails."""
    result = subprocess.run(
        # With -c and -m this folder is on the path, which is where `blocks` and `flows` are.
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        print(result.stdout + result.stderr, file=sys.stderr)
        raise SetupError("a step of the set-up failed; its own words stand above")


def _say(mark: str, what: str, how: str) -> None:
    print(f"  {mark} {what}: {how}", flush=True)
