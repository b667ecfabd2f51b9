"""Findings that keep a sweep from continuing: trials that lose work, have no price or no metric."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from gpu_core.decisions.model.errors import InvalidInput, nearest_name
from gpu_core.decisions.model.units import count
from gpu_core.decisions.optimization.sweeps.request import Parameters, SweepRequest
from gpu_core.decisions.optimization.sweeps.trials import SweepTrial, TrialStatus, trial_status
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.spot.run_budget import spent_micro_usd

_ANEW = "please choose a different name for the sweep"
"""The remedy: a trial never gets back what it has lost or not logged, whatever is corrected
later."""


def refuse_policy(policy: Policy) -> None:
    """Refuse a policy under which no trial ever stops.

    Raises:
        InvalidInput: It lets runs continue that have spent their budget.
    """
    if policy.capacity.at_budget == "continue":
        raise InvalidInput(
            "policy.capacity.at_budget", "lets trials continue that have spent their budget",
            got="continue", allowed="stop",
        )  # fmt: skip


def refuse_other_sweep(
    request: SweepRequest, started: Mapping[str, Parameters], *, is_same_deployment: bool
) -> None:
    """Refuse a request that is not about the trials that have started under its name.

    Args:
        request: What was asked.
        started: The parameters of the trials that have started, by their keys.
        is_same_deployment: Are they all runs of the request's deployment?

    Raises:
        InvalidInput: The name is another sweep's, or trials are missing in the request.
    """
    if not is_same_deployment:
        raise InvalidInput(
            "name", "is that of a sweep over another deployment", got=request.name,
            remedy="give this sweep another name",
        )  # fmt: skip
    asked = {request.key(parameters) for parameters in request.trials}
    missing = next((given for key, given in started.items() if key not in asked), None)
    if missing is not None:
        raise InvalidInput(
            "trials", "lack one that has started", got=dict(missing),
            remedy=f"list it too, or please choose a different name for the sweep than "
                f"{request.name}",
        )  # fmt: skip


def places_for(request: SweepRequest, trials: Sequence[SweepTrial]) -> int:
    """How many trials may have dollars left now?

    One, until a trial has saved a checkpoint: a flow that keeps none loses the dollars of one.
    """
    return request.places if any(trial.has_checkpoint for trial in trials) else 1


def sweep_problem(
    request: SweepRequest,
    trials: Sequence[SweepTrial],
    metric_names: Collection[str],
    now: datetime,
) -> InvalidInput | None:
    """The reason why no trial of this sweep may get dollars.

    Args:
        request: What was asked.
        trials: All of the sweep, as far as they have come.
        metric_names: All metrics that their runs have in MLflow.
        now: Up to when open attempts have cost something.

    Returns:
        The mistake. None: none is known.
    """
    plan, deployment = request.plan, request.deployment
    known = {trial.trial_id: trial_status(plan, trial) for trial in trials}
    stopped = [each for each in trials if known[each.trial_id] is TrialStatus.STOPPED]
    lost = next((trial for trial in stopped if not trial.has_checkpoint), None)
    if lost is not None:
        return InvalidInput(
            "deployment", f"keeps no checkpoints: trial {lost.number} was stopped without one",
            got=deployment,
            remedy="give a larger first_rung_usd, or save with checkpointing() in its flow and "
            f"{_ANEW}",
        )  # fmt: skip
    unstopped = next((trial for trial in trials if _is_unstopped(trial, now)), None)
    if unstopped is not None:
        return InvalidInput(
            "deployment", "runs where nothing stops a trial at its budget: "
            f"trial {unstopped.number} has spent its own, and runs on",
            got=deployment,
            remedy="set capacity.at_budget: stop in the policy of its pool's worker, or see that "
            "the worker runs. Then start the sweep again",
        )  # fmt: skip
    unpriced = next((trial for trial in trials if trial.is_unpriced), None)
    if unpriced is not None:
        return InvalidInput(
            "deployment", f"runs on GPUs without a price: trial {unpriced.number} did",
            got=deployment,
            remedy=f"give the policy a price for them, and {_ANEW}",
        )  # fmt: skip
    finished = [each for each in trials if known[each.trial_id] is TrialStatus.COMPLETED]
    compared = [*stopped, *finished]
    if compared and not any(trial.points for trial in trials):
        return InvalidInput(
            "metric", f"is in MLflow for none of {count(len(compared), 'trial')} that have stopped",
            got=request.metric, nearest=nearest_name(request.metric, metric_names),
            remedy="log it in the flow's tracked_run(), to the MLflow that this run reads, and "
            f"{_ANEW}",
        )  # fmt: skip
    return None


def _is_unstopped(trial: SweepTrial, now: datetime) -> bool:
    """Has it spent its budget while no worker has asked it to end? A worker asks before that."""
    last = trial.attempts[-1] if trial.attempts else None
    if last is None or trial.budget_micro_usd is None or last.released_at is not None:
        return False
    spent = spent_micro_usd(trial.attempts, now)
    return last.drain_requested_at is None and spent > trial.budget_micro_usd
