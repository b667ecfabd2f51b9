"""A part of a GPU in place of a whole one: from what runs use, and the parts that the pool has."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import mean, median

import numpy as np

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES
from gpu_core.decisions.catalog.mig import MIG_PROFILES, mig_part, mig_share_milli
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.units import format_duration
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI
from gpu_core.decisions.optimization.proposals.drafts import Draft, draft
from gpu_core.decisions.optimization.proposals.kinds import ProposalKind
from gpu_core.decisions.optimization.proposals.period import Period
from gpu_core.decisions.optimization.proposals.proposal import Change, JobValue
from gpu_core.decisions.optimization.proposals.resampling import by_day, future_history
from gpu_core.decisions.optimization.proposals.run_facts import RunFact
from gpu_core.decisions.policy.idle import IdlePolicy

LEAST_RUNS = 10
"""With measured GPUs: fewer say little about the next ones."""
MOST_MEMORY_USED = 0.9
"""Of the part's memory, by the run that used most: the next one may use more."""

_DRAWS = 400
_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPart:
    """A part of a GPU that a run of the pool held."""

    variable: str
    """The job variable that requests it."""
    value: JobValue
    paid: Fraction
    """The part of the GPU's price that it pays."""
    memory: Fraction
    """Its part of the GPU's memory; without MIG nothing enforces it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNeeds:
    """The use that the runs of a deployment make of their one GPU, all measured."""

    utilization: tuple[float, ...]
    """Of each run: the part of its time in which a kernel ran."""
    memory_mib: float
    """The most that any of them used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingCase:
    """One deployment on a part of a GPU."""

    facts: tuple[RunFact, ...]
    gpu_type: str
    part: GpuPart
    needs: GpuNeeds
    draws: tuple[float, ...]
    """The saving, as a part of the cost, in each history that was drawn."""


def parts_held(gpu_type: str, everything: Iterable[RunFact]) -> tuple[GpuPart, ...]:
    """The parts of such a GPU that any run held. The pool has nodes that hand them out."""
    shares = {
        share
        for fact in everything
        for attempt in fact.attempts
        if attempt.gpu_type == gpu_type
        for share in attempt.held
        if share.share_milli < WHOLE_GPU_MILLI
    }
    parts = {_part(gpu_type, share) for share in shares}
    return tuple(sorted((p for p in parts if p is not None), key=lambda p: (p.paid, str(p.value))))


def _part(gpu_type: str, share: NodeShare) -> GpuPart | None:
    memory = Fraction(share.share_milli, WHOLE_GPU_MILLI)
    if not share.mig_starts:
        value = share.share_milli / WHOLE_GPU_MILLI
        return GpuPart(variable="gpu_fraction", value=value, paid=share.part_of_gpu, memory=memory)
    for name in MIG_PROFILES.get(gpu_type, {}):
        is_it = mig_share_milli(gpu_type, name) == share.share_milli
        if is_it and mig_part(gpu_type, name) == share.exact_part:
            return GpuPart(
                variable="mig_profile", value=name, paid=share.part_of_gpu, memory=memory
            )
    return None


def gpu_needs(facts: Sequence[RunFact]) -> GpuNeeds | None:
    """The use that these runs make of their GPU.

    None: not all had one whole GPU that was measured.
    """
    used = [_used(fact.attempts) for fact in facts]
    known = [each for each in used if each is not None]
    if len(known) < len(used) or len(known) < LEAST_RUNS:
        return None
    return GpuNeeds(
        utilization=tuple(utilization for utilization, _ in known),
        memory_mib=max(memory_bytes for _, memory_bytes in known) / _MIB,
    )


def _used(attempts: Sequence[Attempt]) -> tuple[float, int] | None:
    """The mean utilization and the most memory over the attempts of a run; None: unknown."""
    if any(attempt.gpus != 1 or attempt.gpu_count != 1 for attempt in attempts):
        return None
    samples = busy = 0.0
    memory_bytes = 0
    for attempt in attempts:
        for each in attempt.gpu_summaries or (None,):
            if each is None or each.is_simulated:
                return None
            if each.utilization_mean_ratio is None or each.memory_used_max_bytes is None:
                return None
            samples += each.samples
            busy += each.samples * each.utilization_mean_ratio
            memory_bytes = max(memory_bytes, each.memory_used_max_bytes)
    return busy / samples, memory_bytes


def sharing_case(
    facts: Sequence[RunFact],
    everything: Sequence[RunFact],
    idle: IdlePolicy,
    period: Period,
    seed: Sequence[int],
) -> SharingCase | None:
    """The saving of this deployment on a part of a GPU; None: too little is known.

    Of the parts whose memory suffices, the one that saves most at the lower end.

    Args:
        facts: The runs of one deployment.
        everything: The runs of all, for the parts that the pool has.
        idle: From which mean utilization on a GPU is not under-used.
        period: The days that are judged.
        seed: Of the draws.
    """
    types = {attempt.gpu_type for fact in facts for attempt in fact.attempts}
    gpu_type = next(iter(types)) if len(types) == 1 else None
    cataloged = GPU_TYPES.get(gpu_type or "")
    needs = gpu_needs(facts)
    is_priced = all(fact.cost_micro_usd is not None for fact in facts)
    if gpu_type is None or cataloged is None or needs is None or not is_priced:
        return None
    if mean(needs.utilization) >= idle.under_used_below:
        return None
    memory_mib = cataloged.reported_memory_mib or cataloged.memory_gib * 1024
    cases = [
        SharingCase(
            facts=tuple(facts),
            gpu_type=gpu_type,
            part=part,
            needs=needs,
            draws=_draws(facts, needs, part, period, np.random.default_rng((*seed, number))),
        )
        for number, part in enumerate(parts_held(gpu_type, everything))
        if needs.memory_mib <= MOST_MEMORY_USED * memory_mib * part.memory
    ]
    known = [case for case in cases if case.draws]
    return max(known, key=lambda case: np.percentile(case.draws, 10), default=None)


def longest_stretch(utilization: float, part: GpuPart) -> float:
    """How many times as long does a run take on this part at most?

    Only the time of its kernels stretches. On a GPU of n replicas a kernel that waits for all
    others takes n times as long; on a MIG instance, one that would fill the whole GPU does.
    """
    return 1 + utilization * float(1 / part.paid - 1)


def _draws(
    facts: Sequence[RunFact],
    needs: GpuNeeds,
    part: GpuPart,
    period: Period,
    rng: np.random.Generator,
) -> tuple[float, ...]:
    """The savings in drawn futures.

    How busy the neighbors will be is not in the ledger: from never to always, each as likely. How
    long they hold the other parts is not known, either.
    """
    cost = np.array([fact.cost_micro_usd or 0 for fact in facts], dtype=np.float64)
    is_completed = np.array([fact.is_completed for fact in facts])
    most = np.array([longest_stretch(u, part) for u in needs.utilization])
    if not is_completed.any():
        return ()
    before = cost.sum() / is_completed.sum()
    days = by_day(facts, period.first, period.last)
    draws = []
    for _ in range(_DRAWS):
        chosen = future_history(days, period.verify_days, rng)
        busy = rng.uniform()
        stretch = 1 + (most[chosen] - 1) * busy
        completed = is_completed[chosen].sum()
        if completed:
            paid = (cost[chosen] * stretch).sum() * float(part.paid)
            draws.append(float(1 - paid / completed / before))
    return tuple(draws)


def sharing_draft(
    facts: Sequence[RunFact],
    everything: Sequence[RunFact],
    idle: IdlePolicy,
    period: Period,
    seed: tuple[int, int],
) -> Draft | None:
    """Is a part of a GPU proposed for this deployment? Args as for `sharing_case`."""
    first, number = seed
    case = sharing_case(facts, everything, idle, period, (first, 6, number))
    if case is None:
        return None
    part = case.part
    longest = max(longest_stretch(u, part) for u in case.needs.utilization)
    isolation = (
        "MIG instances have dedicated memory."
        if part.variable == "mig_profile"
        else "GPU memory is shared, so a run that exceeds its share can cause other runs to fail."
    )
    return draft(
        ProposalKind.SHARING,
        facts,
        Change(variable=part.variable, observed="a whole GPU", proposed=part.value),
        case.draws,
        period,
        held_s=None,
        why=f"The GPU utilization of its runs on {case.gpu_type} is low.",
        evidence=_evidence(case),
        risk=(
            f"Runs may take up to {longest:.2f} times as long. {isolation} Costs are only "
            "reduced if the rest of the GPU is used by other runs."
        ),
    )


def _evidence(case: SharingCase) -> tuple[str, ...]:
    needs, part = case.needs, case.part
    return (
        f"A kernel ran on the GPU of {len(case.facts)} runs for "
        f"{median(needs.utilization):.0%} of the time (median), at most "
        f"{max(needs.utilization):.0%}; they used {needs.memory_mib / 1024:.1f} GiB of its memory "
        "at most (all measured).",
        f"Other runs used {part.variable} {part.value} on {case.gpu_type} during this period.",
        f"Their total GPU time was {format_duration(sum(f.held_s for f in case.facts))}.",
    )
