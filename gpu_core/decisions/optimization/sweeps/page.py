"""A sweep as people read it: each trial, what was saved, and what was risked for it."""

from collections.abc import Iterable, Sequence

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.markdown import escaped, flow_run_link, table
from gpu_core.decisions.model.units import digits, format_usd
from gpu_core.decisions.optimization.sweeps.request import SweepRequest
from gpu_core.decisions.optimization.sweeps.rungs import (
    SweepDecision,
    SweepPlan,
    SweepRun,
    SweepStep,
)
from gpu_core.decisions.optimization.sweeps.trials import SweepTrial, TrialStatus, trial_status

_LONGEST_MESSAGE = 120

_WORDS = {
    SweepStep.START: "starts",
    SweepStep.PROMOTE: "promoted",
    SweepStep.CONTINUE: "active",
    SweepStep.PARK: "parked",
    SweepStep.BEST: "best",
    SweepStep.WAIT: "not started",
}

_SIMULATED_LOSSES = "13 to 36%"
"""Of 400 sweeps of 27 runs with known curves each (`python -m benchmarks.sweeps`, 2026-11-27)."""


def sweep_page(
    request: SweepRequest,
    trials: Sequence[SweepTrial],
    runs: Sequence[SweepRun],
    decided: SweepDecision,
    problem: InvalidInput | None = None,
) -> str:
    """The sweep with its trials, the furthest and best first. The same input gives the same page.

    Args:
        request: What was asked.
        trials: All of them.
        runs: The same trials as they were compared, in the same order.
        decided: What becomes of them.
        problem: Why none of them gets dollars; None: nothing keeps them from it.
    """
    plan = request.plan
    better = "higher" if plan.goal == "higher" else "lower"
    head = ["Trial", "Parameters", "Spent"]
    head += [f"At {format_usd(plan.rung_micro_usd(rung))}" for rung in range(plan.rungs)]
    rows = [_row(plan, trial, run, decided) for trial, run in _ranked(plan, trials, runs)]
    parts = [
        f"# Sweep {request.name}",
        f"**{escaped(sweep_sentence(request, trials, runs, decided))}**",
        *([f"**The sweep was stopped: {escaped(str(problem))}**"] if problem else []),
        f"The trials of {escaped(request.deployment)} are compared by {escaped(request.metric)} "
        f"({better} is better) after they have spent the same amount. One in {plan.reduction} "
        "trials is promoted.",
        table([*head, "Now"], rows),
        *_saved_and_risked(plan, runs, decided),
        *_how_to_resume(request, decided),
    ]
    return "\n\n".join(parts) + "\n"


def sweep_sentence(
    request: SweepRequest,
    trials: Sequence[SweepTrial],
    runs: Sequence[SweepRun],
    decided: SweepDecision,
) -> str:
    """How far has the sweep come? Two or three sentences."""
    plan, steps = request.plan, list(decided.steps.values())
    spent = sum(run.spent_micro_usd for run in runs)
    parked = steps.count(SweepStep.PARK)
    money = (
        f"{format_usd(spent)} of {format_usd(plan.budget_micro_usd)} has been spent. "
        f"Parked trials: {parked} of {len(trials)}."
    )
    trial, run = _ranked(plan, trials, runs)[0]
    metric = _last(run)
    if metric is None:
        return f"No trial has logged {request.metric} yet. {money}"
    rung = format_usd(plan.rung_micro_usd(len(run.metrics) - 1))
    tail = " The budget is exhausted." if decided.is_spent else ""
    return (
        f"Trial {trial.number} is leading with {request.metric} {digits(metric, 4)} at {rung}. "
        f"{money}{tail}"
    )


def is_over(decided: SweepDecision) -> bool:
    """Will nothing change any more, unless a person changes it?"""
    moving = (SweepStep.START, SweepStep.PROMOTE, SweepStep.CONTINUE)
    return not any(step in moving for step in decided.steps.values())


def _ranked(
    plan: SweepPlan, trials: Sequence[SweepTrial], runs: Sequence[SweepRun]
) -> list[tuple[SweepTrial, SweepRun]]:
    """The furthest first, of those the best; trials without a metric come last."""

    def place(pair: tuple[SweepTrial, SweepRun]) -> tuple[bool, int, float, int]:
        metric = _last(pair[1])
        worth = 0.0 if metric is None else plan.worth(metric)
        return metric is None, -len(pair[1].metrics), -worth, pair[0].number

    return sorted(zip(trials, runs, strict=True), key=place)


def _last(run: SweepRun) -> float | None:
    return run.metrics[-1] if run.metrics else None


def _row(
    plan: SweepPlan, trial: SweepTrial, run: SweepRun, decided: SweepDecision
) -> Sequence[str]:
    name = str(trial.number)
    label = name if trial.flow_run_id is None else flow_run_link(name, trial.flow_run_id)
    parameters = ", ".join(f"{key}={value}" for key, value in trial.parameters.items())
    metrics = [
        "" if not run.has_reached(rung) else _metric_text(run.metrics[rung])
        for rung in range(plan.rungs)
    ]
    now = _now(plan, trial, decided.steps[trial.trial_id])
    return label, escaped(parameters), format_usd(run.spent_micro_usd), *metrics, now


def _metric_text(metric: float | None) -> str:
    return "none" if metric is None else digits(metric, 4)


def _now(plan: SweepPlan, trial: SweepTrial, step: SweepStep) -> str:
    status = trial_status(plan, trial)
    kept = ", kept" if trial.is_kept else ""
    if step is SweepStep.OVER and status is TrialStatus.ENDED:
        why = (trial.message or "").strip()[:_LONGEST_MESSAGE]
        return f"{trial.state_type or ''}".lower() + (f": {escaped(why)}" if why else "")
    if step is SweepStep.OVER:
        return f"{status}{kept}"
    if step is SweepStep.BEST:
        return f"best, {status}{kept}"
    return f"{_WORDS[step]}{kept}"


def _saved_and_risked(
    plan: SweepPlan, runs: Sequence[SweepRun], decided: SweepDecision
) -> Iterable[str]:
    whole = len(runs) * plan.rung_micro_usd(plan.last_rung)
    yield (
        f"Savings: running the parked trials would cost {format_usd(decided.saved_micro_usd)} "
        "more up to the last rung. Running all trials up to the last rung would cost "
        f"{format_usd(whole)}."
    )
    chance = (
        "unknown, because too few trials were promoted"
        if decided.lost_chance is None
        else f"{decided.lost_chance:.0%} by the metrics of this sweep"
    )
    yield (
        f"Risk: the probability that a parked trial outperforms the best trial is {chance}. "
        f"In {_SIMULATED_LOSSES} of simulated sweeps, the best of 27 trials was parked."
    )


def _how_to_resume(request: SweepRequest, decided: SweepDecision) -> Iterable[str]:
    if SweepStep.PARK in decided.steps.values():
        yield (
            "The latest checkpoint of each parked trial is retained. To resume trials 3 and 5, "
            "run the sweep "
            f"{request.name} again with the same parameters and `keep: [3, 5]`."
        )
