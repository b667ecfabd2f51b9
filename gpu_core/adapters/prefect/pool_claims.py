"""The claim of a pool by an installation, as a Prefect variable: for those that share no ledger.

Prefect's API has no compare-and-set: what takes a claim over reads it again before it counts.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import VariableCreate, VariableUpdate
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

from gpu_core.decisions.checks.prefect.pool_claim import Installation, PoolClaim


async def claim_pool(
    client: PrefectClient, wanted: PoolClaim, instead_of: PoolClaim | None
) -> PoolClaim:
    """Create, renew or take over; the claim that counts.

    Args:
        client: Prefect's client.
        wanted: The claim of the installation that asks.
        instead_of: Another installation's claim that may be taken over if it was not renewed since.

    Returns:
        `wanted` or its renewal, or the other installation's. A claim that was just taken over is
        still the other's in this answer: of two that take it at once the last one has it.
    """
    name = variable_name(wanted.pool_id)
    found = await client.read_variable_by_name(name)
    if found is None:
        try:
            await client.create_variable(
                VariableCreate(name=name, value=_value(wanted), tags=["prefect-gpu"])
            )
        except ObjectAlreadyExists:
            return await read_claim(client, wanted.pool_id) or wanted
        return wanted
    current = _claim(wanted.pool_id, found.value)
    if current is None:  # a person has changed it
        await _update(client, wanted)
        return wanted
    if current.installation == wanted.installation:
        renewed = replace(wanted, claimed_at=current.claimed_at, renewals=current.renewals + 1)
        await _update(client, renewed)
        return renewed
    if instead_of is not None and current.renewals == instead_of.renewals:
        await _update(client, replace(wanted, renewals=current.renewals + 1))
    return current


async def read_claim(client: PrefectClient, pool_id: str) -> PoolClaim | None:
    """The installation that has claimed this pool; None: none, or the variable was damaged."""
    found = await client.read_variable_by_name(variable_name(pool_id))
    return None if found is None else _claim(pool_id, found.value)


def variable_name(pool_id: str) -> str:
    """The Prefect variable that has the claim of the pool with this id.

    >>> variable_name("5f0b-1c")
    'prefect_gpu_pool_5f0b1c'
    """
    return f"prefect_gpu_pool_{pool_id.replace('-', '')}"


async def _update(client: PrefectClient, claim: PoolClaim) -> None:
    with suppress(ObjectNotFound):  # deleted at this moment: the next request creates it
        await client.update_variable(
            VariableUpdate(name=variable_name(claim.pool_id), value=_value(claim))
        )


def _value(claim: PoolClaim) -> dict[str, Any]:
    return {
        "pool": claim.pool,
        "cluster": claim.installation.cluster,
        "namespace": claim.installation.namespace,
        "holder": claim.holder,
        "claimed_at": claim.claimed_at.isoformat(),
        "renewed_at": claim.renewed_at.isoformat(),
        "renewals": claim.renewals,
    }


def _claim(pool_id: str, value: object) -> PoolClaim | None:
    if not isinstance(value, Mapping):
        return None
    try:
        return PoolClaim(
            pool_id=pool_id,
            pool=str(value["pool"]),
            installation=Installation(
                cluster=str(value["cluster"]), namespace=str(value["namespace"])
            ),
            holder=str(value["holder"]),
            claimed_at=datetime.fromisoformat(value["claimed_at"]),
            renewed_at=datetime.fromisoformat(value["renewed_at"]),
            renewals=int(value["renewals"]),
        )
    except (KeyError, TypeError, ValueError):
        return None
