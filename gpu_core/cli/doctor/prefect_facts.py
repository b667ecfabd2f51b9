"""The state of a pool in Prefect's API, read once for all checks."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx
from prefect.client.base import ServerType
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import WorkPoolFilter, WorkPoolFilterName
from prefect.client.schemas.objects import WorkerStatus
from prefect.exceptions import ObjectNotFound

from gpu_core.adapters.prefect.pool_claims import read_claim
from gpu_core.adapters.prefect.work_pool import read_pool_status, read_pools
from gpu_core.decisions.checks.doctor.clocks import ClockReading
from gpu_core.decisions.checks.doctor.prefect_pool import (
    DEFAULT_POOL,
    OUR_TYPES,
    Heartbeat,
    chosen_pool,
)
from gpu_core.decisions.checks.prefect.pool_claim import PoolClaim
from gpu_core.decisions.checks.prefect.pool_status import PoolStatus
from gpu_core.worker.startup.connections import Connections, read_connections
from gpu_core.worker.startup.settings import GpuWorkerSettings

# The header `Date` has whole seconds, which are cut off.
_DATE_STEP_S = 1.0
_DEPLOYMENTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefectFacts:
    """A Prefect server, and a pool of it.

    Attributes:
        version: Of the server; None: it does not say.
        pool_name: The pool that is checked; None: none was named, and none can be chosen.
        pool: The pool; None: there is none of this name.
        namespaces: Where deployments of the pool have their Jobs, in addition to its default.
        cluster_config: The kubeconfig of its cluster block, and the context; None: it has none.
        claim: Which installation of workers acts for the pool; None: Prefect does not say.
    """

    address: str
    latency_s: float
    version: str | None
    is_cloud: bool
    clock: ClockReading
    connections: Connections
    gpu_pools: tuple[str, ...]
    pool_name: str | None
    pool: PoolStatus | None = None
    pool_id: str | None = None
    template: Mapping[str, Any] = field(default_factory=dict)
    heartbeats: tuple[Heartbeat, ...] = ()
    namespaces: tuple[str, ...] = ()
    cluster_config: tuple[dict[str, Any], str | None] | None = field(default=None, repr=False)
    claim: PoolClaim | None = None


async def read_prefect_facts(
    client: PrefectClient, given: str | None, settings: GpuWorkerSettings, state_dir: Path
) -> PrefectFacts:
    """The facts that this server knows of the pool.

    Args:
        given: The pool's name; None: the one that there is.
    """
    clock, latency_s = await _clock(client)
    is_cloud = client.server_type is ServerType.CLOUD
    gpu_pools = tuple(each.name for each in await read_pools(client, OUR_TYPES))
    pool = chosen_pool(given, gpu_pools)
    common: dict[str, Any] = {
        "address": str(client.api_url),
        "latency_s": latency_s,
        "version": None if is_cloud else await _version(client),
        "is_cloud": is_cloud,
        "clock": clock,
        "connections": await read_connections(client, settings, state_dir, pool or DEFAULT_POOL),
        "gpu_pools": gpu_pools,
        "pool_name": pool,
    }
    if pool is None:
        return PrefectFacts(**common)
    try:
        found = await client.read_work_pool(pool)
    except ObjectNotFound:
        return PrefectFacts(**common)
    template = found.base_job_template
    return PrefectFacts(
        **common,
        pool=await read_pool_status(client, pool),
        pool_id=str(found.id),
        template=template,
        heartbeats=await _heartbeats(client, pool),
        namespaces=await _namespaces(client, pool),
        cluster_config=await _cluster_config(client, default_of(template, "cluster_config")),
        claim=await _claim(client, str(found.id)),
    )


async def _claim(client: PrefectClient, pool_id: str) -> PoolClaim | None:
    """The acting installation; None also if this account may not read variables."""
    try:
        return await read_claim(client, pool_id)
    except httpx.HTTPStatusError:
        return None


def default_of(template: Mapping[str, Any], variable: str) -> object:
    """The default of a job variable; None: it has none."""
    properties = (template.get("variables") or {}).get("properties") or {}
    return (properties.get(variable) or {}).get("default")


async def _clock(client: PrefectClient) -> tuple[ClockReading, float]:
    before = datetime.now(UTC)
    began_s = time.perf_counter()
    response = await client.request("GET", "/health")
    took_s = time.perf_counter() - began_s
    middle = before + (datetime.now(UTC) - before) / 2
    return reading_of("Prefect's server", response.headers.get("Date"), middle, took_s), took_s


def reading_of(name: str, date: str | None, ours: datetime, took_s: float) -> ClockReading:
    """The time in a server's `Date` header, in the middle of that second."""
    try:
        theirs = None if date is None else parsedate_to_datetime(date).astimezone(UTC)
    except ValueError:
        theirs = None
    half = _DATE_STEP_S / 2
    if theirs is not None:
        theirs = datetime.fromtimestamp(theirs.timestamp() + half, UTC)
    return ClockReading(name=name, theirs=theirs, ours=ours, error_s=half + took_s / 2)


async def _version(client: PrefectClient) -> str | None:
    try:
        return str(await client.api_version())
    except (httpx.HTTPStatusError, ValueError):
        return None


async def _heartbeats(client: PrefectClient, pool: str) -> tuple[Heartbeat, ...]:
    return tuple(
        Heartbeat(
            name=worker.name,
            seen_at=worker.last_heartbeat_time,
            is_online=worker.status is WorkerStatus.ONLINE,
        )
        for worker in await client.read_workers_for_work_pool(pool)
    )


async def _namespaces(client: PrefectClient, pool: str) -> tuple[str, ...]:
    of_pool = WorkPoolFilter(name=WorkPoolFilterName(any_=[pool]))
    deployments = await client.read_deployments(work_pool_filter=of_pool, limit=_DEPLOYMENTS)
    found = {(each.job_variables or {}).get("namespace") for each in deployments}
    return tuple(sorted(name for name in found if isinstance(name, str)))


async def _cluster_config(
    client: PrefectClient, reference: object
) -> tuple[dict[str, Any], str | None] | None:
    """The kubeconfig of the pool's cluster block."""
    if not isinstance(reference, dict):
        return None
    block_id = (reference.get("$ref") or {}).get("block_document_id")
    if block_id is None:
        return reference.get("config") or {}, reference.get("context_name")
    document = await client.read_block_document(block_id, include_secrets=True)
    return document.data.get("config") or {}, document.data.get("context_name")
