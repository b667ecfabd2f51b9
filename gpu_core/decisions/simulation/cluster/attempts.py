"""Attempts of a replay as the ledger would have them, for rules that look at the ledger."""

from datetime import datetime

from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.model.cluster import Allocation

_POOL = "replay"


def attempt_record(
    allocation: Allocation, zone: str | None, ended_at: datetime, end_reason: EndReason
) -> Attempt:
    """The attempt as the ledger would have it."""
    placement = allocation.placement
    workload_id = allocation.workload.workload_id
    return Attempt(
        attempt_id=f"{workload_id}/{allocation.attempt}",
        flow_run_id=workload_id,
        number=allocation.attempt,
        pool=_POOL,
        host=_POOL,
        node=placement.shares[0].node if placement.shares else _POOL,
        gpu_type=placement.gpu_type,
        gpu_ids=placement.gpu_ids,
        capacity_type=placement.capacity_type,
        price_micro_usd_per_gpu_hour=None,
        admitted_at=allocation.admitted_at,
        released_at=ended_at,
        end_reason=end_reason,
        shares=placement.shares,
        zone=zone,
    )
