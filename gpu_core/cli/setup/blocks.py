"""The block types of this package, and the blocks of the pool: ledger, checkpoints, MLflow."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from prefect.blocks.core import Block
from prefect.client.schemas.actions import BlockDocumentCreate, BlockDocumentUpdate
from prefect.client.schemas.objects import BlockDocument
from prefect.exceptions import ObjectNotFound

from gpu_core.adapters.prefect.pool_blocks import read_block
from gpu_core.cli.setup.options import SetupOptions
from gpu_core.cli.setup.session import Session, SetupError, say
from gpu_core.decisions.checks.prefect.pool_blocks import (
    CHECKPOINT_BLOCK,
    LEDGER_BLOCK,
    MLFLOW_BLOCK,
    SHARED_BLOCK_NAME,
    pool_block_name,
)
from gpu_core.decisions.costs.mlflow.mlflow_access import MlflowAccess, split_credentials
from gpu_core.worker.startup.settings import GpuWorkerSettings

# The modules are named, because the library may not depend on blocks.
_BLOCK_TYPES = (
    ("gpu_core.blocks.checkpoint_store", "CheckpointStore"),
    ("gpu_core.blocks.gpu_cluster", "GpuCluster"),
    ("gpu_core.blocks.gpu_kubernetes_job", "GpuKubernetesJob"),
    ("gpu_core.blocks.mlflow_tracking", "MLflowTracking"),
    ("gpu_core.blocks.usage_ledger", "UsageLedger"),
)

_OPTIONS = {
    LEDGER_BLOCK: "--ledger-url",
    CHECKPOINT_BLOCK: "--checkpoint-uri",
    MLFLOW_BLOCK: "--mlflow-uri",
}


async def have_blocks(session: Session, options: SetupOptions, *, is_local: bool) -> None:
    """Have the block types and the pool's blocks.

    Args:
        options: What was given for the blocks; what was not stays as it is.
        is_local: Whether runs of the pool find what lies in folders of this machine.
    """
    for module, name in _BLOCK_TYPES:
        await _have_type(session, getattr(import_module(module), name))
    home = GpuWorkerSettings().resolved_state_dir()
    ledger_url = f"sqlite:///{home / 'ledger.db'}" if is_local else None
    checkpoint_uri = str(home / "checkpoints") if is_local else None
    for slug, field, given, default in (
        (LEDGER_BLOCK, "url", options.ledger_url, ledger_url),
        (CHECKPOINT_BLOCK, "uri", options.checkpoint_uri, checkpoint_uri),
    ):
        own, shared = await _documents(session, slug, options.pool)
        wanted = given or (default if own is None and shared is None else None)
        await _have_block(
            session, slug, options.pool, own, shared, {field: wanted} if wanted else {}
        )
    own, shared = await _documents(session, MLFLOW_BLOCK, options.pool)
    fields = mlflow_fields(options, _data(own or shared))
    await _have_block(session, MLFLOW_BLOCK, options.pool, own, shared, fields)


async def _have_type(session: Session, block: type[Block]) -> None:
    label = f"block type {block.get_block_type_slug()}"
    try:
        await session.client.read_block_type_by_slug(block.get_block_type_slug())
    except ObjectNotFound:
        say("+", label, session.did("registered"))
    if not session.dry_run:
        await block.aregister_type_and_schema(client=session.client)


async def _documents(
    session: Session, slug: str, pool: str
) -> tuple[BlockDocument | None, BlockDocument | None]:
    """The pool's own block, and without one the block that all pools had in common before."""
    own = await read_block(session.client, slug, pool_block_name(pool))
    if own is not None:
        return own, None
    return None, await read_block(session.client, slug, SHARED_BLOCK_NAME)


def _data(document: BlockDocument | None) -> Mapping[str, Any]:
    return {} if document is None else document.data


def mlflow_fields(options: SetupOptions, current: Mapping[str, Any]) -> dict[str, str | None]:
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


async def _have_block(
    session: Session,
    slug: str,
    pool: str,
    own: BlockDocument | None,
    shared: BlockDocument | None,
    wanted: Mapping[str, str | None],
) -> None:
    """Have the pool's block with these fields; fields that are not named stay as they are."""
    name = pool_block_name(pool)
    label = f"block {slug}/{name}"
    if own is None:
        data = _known({**_data(shared), **wanted})
        if not data:
            say("!", label, f"not created, because {_OPTIONS[slug]} was not provided")
            return
        if not session.dry_run:
            await _create(session, slug, name, data)
        origin = f", from {slug}/{SHARED_BLOCK_NAME}" if shared is not None else ""
        say("+", label, f"{session.did('created')}{origin}")
        return
    data, before = _known({**own.data, **wanted}), _known(own.data)
    changed = sorted(key for key in {*data, *before} if data.get(key) != before.get(key))
    if not changed:
        say("=", label, "unchanged")
        return
    if not session.dry_run:
        await session.client.update_block_document(
            own.id, BlockDocumentUpdate(data=data, merge_existing_data=False)
        )
    say("~", label, f"{', '.join(changed)} {session.did('changed')}")


async def _create(session: Session, slug: str, name: str, data: dict[str, Any]) -> None:
    client = session.client
    block_type = await client.read_block_type_by_slug(slug)
    schema = await client.get_most_recent_block_schema_for_block_type(block_type.id)
    if schema is None:
        raise SetupError(
            f"No schema found for block type {slug!r}. Please run `prefect-gpu setup` again"
        )
    await client.create_block_document(
        BlockDocumentCreate(
            name=name, data=data, block_type_id=block_type.id, block_schema_id=schema.id
        )
    )


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
