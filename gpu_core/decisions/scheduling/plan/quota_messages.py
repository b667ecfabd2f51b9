"""Explanations why a quota, a limit of a user or a budget lets a workload wait."""

from collections.abc import Mapping

from gpu_core.decisions.model.reasons import Explanation, Reason
from gpu_core.decisions.model.units import count
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Workload
from gpu_core.decisions.quota.budgets import BudgetCheck
from gpu_core.decisions.scheduling.plan.wording import wanted_gpus_text


def exceeds_quota(workload: Workload, numbers: Mapping[str, int], position: int = 0) -> Explanation:
    """Its team could not hold that many GPUs in an empty cluster."""
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.EXCEEDS_QUOTA,
        summary=f"Requires {wanted_gpus_text(workload)}, but {_team(workload)} can use at "
        f"most {numbers['most_gpus']}, including borrowed GPUs.",
        resolution="You can request fewer GPUs or increase the nominal quota or borrowing limit.",
        position=position,
        numbers={"wanted_gpus": workload.shape.total_gpus, **numbers},
    )


def user_limit(workload: Workload, left_gpus: int, most_gpus: int, position: int) -> Explanation:
    """Its user has as many GPUs as one user may have.

    Args:
        left_gpus: How many more the user may have now.
        most_gpus: How many the user may have at once.
    """
    is_hopeless = workload.shape.total_gpu_milli > most_gpus * WHOLE_GPU_MILLI
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.USER_LIMIT,
        summary=f"Requires {wanted_gpus_text(workload)}, but {_user(workload)} can only use "
        f"{count(left_gpus, 'more GPU')}.",
        resolution=f"The run cannot start because each user is limited to {most_gpus}. "
        "Please request fewer GPUs or increase `max_gpus_per_user`."
        if is_hopeless
        else "The run can start once other runs of this user finish.",
        position=position,
        numbers={
            "wanted_gpus": workload.shape.total_gpus,
            "left_gpus": left_gpus,
            "most_gpus": most_gpus,
        },
    )


def over_budget(workload: Workload, check: BudgetCheck, position: int) -> Explanation:
    """A budget refuses it."""
    remedy = (
        "You can request fewer GPUs, set a shorter duration or increase the budget."
        if check.is_permanent
        else "The run can start in the next period or once the budget is increased."
    )
    if check.is_assumed:
        remedy += " You can reduce the committed amount by setting a shorter `expected_duration`."
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.BUDGET_EXCEEDED,
        summary=f"{check.summary}.",
        resolution=remedy,
        position=position,
        numbers={
            "budget": check.budget.name,
            "spent": check.spent,
            "committed": check.committed,
            "expected": check.expected,
            "limit": check.budget.limit,
        },
    )


def waiting_for_quota(
    workload: Workload,
    numbers: Mapping[str, int],
    *,
    is_kept_for_others: bool = False,
    is_owed: bool = True,
    position: int,
) -> Explanation:
    """Its team has used up its quota, with what it can borrow.

    Args:
        numbers: As `Entitlements.quota_numbers`.
        is_kept_for_others: Enough is left, and kept for a workload ahead.
        is_owed: It would have enough if no other team borrowed.
    """
    if is_kept_for_others:
        helps = (
            "The remaining quota is reserved for a run ahead that requires more GPUs. This "
            "run can start after that run."
        )
    elif is_owed:
        helps = (
            "The run can start once other runs of the team finish or borrowed GPUs are "
            "reclaimed from other teams."
        )
    else:
        helps = (
            "Reclaiming borrowed GPUs would not be sufficient. You can request fewer GPUs "
            "or increase the quota to start earlier."
        )
    return Explanation(
        workload_id=workload.workload_id,
        reason=Reason.WAITING_FOR_QUOTA,
        summary=f"Waiting for quota: {_team(workload)} uses "
        f"{count(numbers['held_gpus'], 'GPU')} with {numbers['left_gpus']} "
        f"remaining, but this run requires {workload.shape.total_gpus}.",
        resolution=helps,
        position=position,
        numbers={"wanted_gpus": workload.shape.total_gpus, **numbers},
    )


def _team(workload: Workload) -> str:
    return f"team {workload.team!r}" if workload.team else "a run without a team"


def _user(workload: Workload) -> str:
    return f"user {workload.user!r}" if workload.user else "a run without a user"
