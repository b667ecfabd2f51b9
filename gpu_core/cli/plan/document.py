"""A plan as JSON: every figure with its unit, and unknown as null."""

from datetime import datetime
from typing import Any

from gpu_core.decisions.model.units import MICRO_USD_PER_USD
from gpu_core.decisions.offerings.constraints import Constraints
from gpu_core.decisions.offerings.observed_throughput import DeploymentThroughput
from gpu_core.decisions.offerings.options import Option
from gpu_core.decisions.offerings.rank import OfferingChoice, RankedOffering, verdict
from gpu_core.decisions.requests.requirements.estimates.cpu import cpu_answer
from gpu_core.decisions.requests.requirements.jobs.job import Job
from gpu_core.decisions.requests.requirements.reading.advice import Advice, GpuNeed
from gpu_core.decisions.requests.requirements.reading.text import Reading


def plan_document(
    reading: Reading,
    choice: OfferingChoice | None,
    constraints: Constraints,
    now: datetime,
    history: DeploymentThroughput | None = None,
) -> dict[str, Any]:
    """The whole plan.

    Args:
        choice: None: the work needs no GPU.
        history: What the time was learned from; None: no history.
    """
    document: dict[str, Any] = {
        "planned_at": now.isoformat(),
        "understood": list(reading.understood),
        "assumed": list(reading.assumed),
        "not_read": list(reading.not_read),
        "needs_gpu": _needs_gpu(reading),
        "advice": None if reading.advice is None else _advice(reading.advice),
    }
    if reading.job is None or choice is None:
        return document
    return document | {
        "job": _job(reading.job),
        "learned_from": None if history is None else _history(history),
        "feasible": choice.is_feasible,
        "verdict": verdict(choice, constraints, now),
        "candidates": [_candidate(candidate, now) for candidate in choice.candidates],
        "types_without_spot_price": [key.name for key in choice.types_without_spot],
        "refused": [
            {**refusal.key._asdict(), "reason": str(refusal.reason), "summary": refusal.summary}
            for refusal in choice.refused
        ],
        "cheapest_in_time": _or_none(choice.cheapest_in_time, now),
        "cheapest": _or_none(choice.cheapest, now),
        "fastest": _or_none(choice.fastest, now),
    }


def _needs_gpu(reading: Reading) -> bool | None:
    """The answer whether a GPU is needed; None: it may or may not."""
    if reading.job is not None:
        return cpu_answer(reading.job).needs_gpu
    needs = {GpuNeed.NONE: False, GpuNeed.LIKELY: True}
    return None if reading.advice is None else needs.get(reading.advice.need)


def _advice(advice: Advice) -> dict[str, Any]:
    return {"gpu": str(advice.need), "why": advice.why, "for_an_estimate": advice.ask}


def _history(history: DeploymentThroughput) -> dict[str, Any]:
    observed = history.observed
    return {
        "deployment": history.deployment,
        "runs": history.runs,
        "gpu_type": observed.hardware.gpu.name,
        "gpus": observed.hardware.gpus,
        "units_per_s": list(observed.units_per_s),
    }


def _job(job: Job) -> dict[str, Any]:
    answer = cpu_answer(job)
    return {
        "model": job.model.name,
        "model_source": job.model.source,
        "parameters": job.model.parameters,
        "method": str(job.method),
        "precision": str(job.precision),
        "optimizer": str(job.optimizer) if job.method.is_training else None,
        "amount": job.amount,
        "unit": job.unit,
        "batch_per_gpu": job.batch_per_gpu,
        "sequence_length": job.sequence_length if job.model.is_language_model else None,
        "duration_on_8_cpus_s": answer.duration_s,
    }


def _candidate(candidate: RankedOffering, now: datetime) -> dict[str, Any]:
    return {"certainty": str(candidate.certainty), **_option(candidate.option, now)}


def _or_none(option: Option | None, now: datetime) -> dict[str, Any] | None:
    return None if option is None else _option(option, now)


def _option(option: Option, now: datetime) -> dict[str, Any]:
    cost = option.cost
    return {
        **option.key._asdict(),
        "gpu_type": option.gpu_type,
        "nodes": option.nodes,
        "gpus": option.gpus,
        "zero_stage": option.fit.division.zero_stage,
        "recompute": option.fit.job.recompute and str(option.fit.job.recompute),
        "gpus_for_each_copy": option.fit.division.gpus,
        "memory_bytes_per_gpu": option.fit.memory.bytes,
        "usable_bytes_per_gpu": option.fit.usable_bytes,
        "memory_terms": [
            {"name": term.name, "bytes": term.bytes, "arithmetic": term.arithmetic}
            for term in option.fit.memory.terms
        ],
        "work_s": option.work.likely_s,
        "limit": option.work.limit,
        "basis": str(option.work.basis),
        "wall_low_s": option.wall_low_s,
        "wall_s": option.wall_s,
        "wall_high_s": option.wall_high_s,
        "done_at": option.ends_at(now).isoformat(),
        "overhead_factor": option.overhead,
        "interruption_chance": option.interruption_chance,
        "cost_usd": _usd(cost.total),
        "cost_low_usd": _usd(cost.total_low),
        "cost_high_usd": _usd(cost.total_high),
        "compute_usd": _usd(cost.compute),
        "storage_usd": _usd(cost.storage),
        "transfer_usd": _usd(cost.transfer),
        "priced_at": option.priced_at.isoformat(),
        "is_price_age_known": option.is_price_age_known,
        "price_source": option.price_source,
    }


def _usd(micro: int | None) -> float | None:
    return None if micro is None else micro / MICRO_USD_PER_USD
