"""Can the GPUs of a fixed pool fill the nominal quotas of its policy?"""

from collections import Counter
from collections.abc import Iterator, Mapping

from gpu_core.decisions.checks.doctor.finding import Finding, warning
from gpu_core.decisions.model.units import count
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI
from gpu_core.decisions.policy.flavor_keys import ANY
from gpu_core.decisions.policy.quotas import QuotaPolicy


def quota_findings(
    quotas: QuotaPolicy | None, total_gpus: int, gpus_by_type: Mapping[str, int]
) -> Iterator[Finding]:
    """The nominal quotas that are more than the GPUs that there are.

    Such quotas can be meant, for nodes that come later; until then a team may wait within its
    nominal quota, and has no other team to reclaim GPUs from.

    Args:
        quotas: The policy's section; None: no team is limited.
        total_gpus: The healthy GPUs of a pool to which no provisioner adds nodes.
        gpus_by_type: The same by type; empty: the types are not known here.
    """
    if quotas is None or total_gpus == 0:
        return
    milli: Counter[str] = Counter()
    for quota in (*quotas.teams.values(), *quotas.cohorts.values()):
        for flavor, gpus_milli in (quota.nominal_quota_milli or {}).items():
            milli[flavor.partition("/")[0]] += gpus_milli
    remedy = (
        "please reduce the quotas or add nodes. To validate the entire policy, run prefect-gpu "
        "check"
    )
    for gpu_type in sorted(milli.keys() - {ANY}) if gpus_by_type else ():
        there = gpus_by_type.get(gpu_type, 0)
        if milli[gpu_type] > there * WHOLE_GPU_MILLI:
            yield warning(
                "quotas.nominal",
                f"nominal quotas are {_gpus(milli[gpu_type])} of type {gpu_type}, and the pool has "
                f"{there}",
                remedy,
            )
    if sum(milli.values()) > total_gpus * WHOLE_GPU_MILLI:
        yield warning(
            "quotas.nominal",
            f"nominal quotas are {_gpus(sum(milli.values()))} in all, and the pool has "
            f"{count(total_gpus, 'GPU')}",
            remedy,
        )


def _gpus(milli: int) -> str:
    return f"{milli / WHOLE_GPU_MILLI:g} GPUs"
