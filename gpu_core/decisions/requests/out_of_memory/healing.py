"""The resources of the next attempt of a run that ran out of memory.

The attempts themselves say it: each one that ran out shows what is too little. Attempts of an
earlier run of the deployment that completed in the end stand before the run's own, where the policy
remembers them, so that a later run begins where that one ended.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES
from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.units import format_usd
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.placement.diagnostics import never_fits
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.out_of_memory.shortage import MemoryShortage, memory_shortage

_MIB_PER_GIB = 1024


def with_enough_memory(
    workload: Workload,
    attempts: Sequence[Attempt],
    nodes: Sequence[Node],
    policy: Policy,
    *,
    learned: Sequence[Attempt] = (),
) -> Workload:
    """The workload with the memory that its next attempt gets, by the policy `memory`.

    Args:
        workload: As its request made it, within its permission.
        attempts: All attempts of the run so far, by number.
        nodes: All of the pool, those that may still come included.
        learned: The attempts of earlier runs of its deployment that completed after they lacked
            memory, by number; empty: none, or the policy remembers none.
    """
    if policy.memory.host_factor is not None:
        workload = _with_host_memory(workload, attempts, nodes, policy, learned)
    if policy.memory.action == "off" or not workload.shape.gpu_count:
        return workload
    short = [a for a in (*learned, *attempts) if memory_shortage(a) is MemoryShortage.GPU]
    if not short:
        return workload
    larger = _LargerTypes(workload, nodes, policy)
    types: tuple[str, ...] = ()
    divisor = 1
    times = Counter[str]()
    for attempt in short:
        times[attempt.flow_run_id] += 1
        divisor = max(divisor, attempt.micro_batch_divisor or 1)
        found = larger.than(attempt.gpu_type)
        # Half, then a quarter of that: at most two more attempts until an eighth.
        smaller = divisor << times[attempt.flow_run_id]
        types, divisor = (found, divisor) if found else (types, smaller)
    divisor = min(divisor, 1 << (policy.memory.max_divisor.bit_length() - 1))
    last, who = short[-1], _who(short[-1], attempts)
    if types and types != workload.shape.gpu_types:
        cost = larger.cost_text(types)
        why = f"{who} ran out of GPU memory on {last.gpu_type}{cost}"
        shape = workload.shape._replace(gpu_types=types)
        workload = replace(workload, shape=shape, gpu_type_reason=why)
    if divisor == 1:
        return workload
    return replace(
        workload,
        micro_batch_divisor=divisor,
        micro_batch_reason=_why_divided(divisor, last, who),
    )


def _why_divided(divisor: int, short: Attempt, who: str) -> str:
    if short.asked_for_micro_batch is False:
        return (
            f"divided by {divisor}, which has no effect until the flow calls micro_batch(), "
            f"because {who} ran out of GPU memory"
        )
    return (
        f"divided by {divisor} if the flow calls micro_batch(), because {who} ran out of GPU memory"
    )


def _who(short: Attempt, attempts: Sequence[Attempt]) -> str:
    if any(short is attempt for attempt in attempts):
        return f"attempt {short.number}"
    return "an earlier run of the deployment"


def _with_host_memory(
    workload: Workload,
    attempts: Sequence[Attempt],
    nodes: Sequence[Node],
    policy: Policy,
    learned: Sequence[Attempt],
) -> Workload:
    """A request that was raised since then is left as it is."""
    sizes = [
        (_memory_mib_per_node(attempt), attempt)
        for attempt in (*learned, *attempts)
        if memory_shortage(attempt) is MemoryShortage.HOST
    ]
    had_mib, short = max(sizes, key=lambda size: size[0], default=(0, None))
    if short is None or not workload.shape.memory_mib or workload.shape.memory_mib > had_mib:
        return workload
    wanted_mib = ceil(had_mib * (policy.memory.host_factor or 1))
    if policy.memory.host_limit_gib is not None:
        wanted_mib = min(wanted_mib, policy.memory.host_limit_gib * _MIB_PER_GIB)
    why = f"{_who(short, attempts)} ran out of {_gib(had_mib)}"
    if wanted_mib <= had_mib:
        limit = f"{policy.memory.host_limit_gib} GiB (memory.host_limit_gib)"
        return replace(workload, memory_reason=f"{why}, and the maximum is {limit}")
    grown = workload.shape._replace(memory_mib=wanted_mib)
    if never_fits(grown, nodes) is not None:
        return replace(
            workload, memory_reason=f"{why}, but {_gib(wanted_mib)} is not available on any node"
        )
    return replace(workload, shape=grown, memory_reason=f"{_gib(wanted_mib)}, because {why}")


def _memory_mib_per_node(attempt: Attempt) -> int:
    return (attempt.memory_mib or 0) // max(1, len(attempt.held))


def _gib(mib: int) -> str:
    return f"{mib / _MIB_PER_GIB:.4g} GiB"


@dataclass(frozen=True, slots=True)
class _LargerTypes:
    """GPU types with more memory that a workload may use.

    Those that it asks for come first, as they cost no more than it is ready to pay; then those of
    the policy, within its limit on cost.
    """

    workload: Workload
    nodes: Sequence[Node]
    policy: Policy

    def than(self, gpu_type: str | None) -> tuple[str, ...]:
        """The types with more memory than this one, cheapest first.

        Empty: there are none, or it is unknown.
        """
        known = GPU_TYPES.get(gpu_type or "")
        is_asked = self.policy.memory.action == "larger-gpu" and self.workload.shape.is_whole
        if known is None or not is_asked:
            return ()
        enough = [
            t
            for t in dict.fromkeys((*self._own, *self.policy.memory.gpu_types))
            if _memory_gib(t) > known.memory_gib and self._is_there(t)
        ]
        own = [t for t in enough if t in self._own]
        return tuple(sorted(own or filter(self._is_allowed, enough), key=self._rank))

    def cost_text(self, types: Sequence[str]) -> str:
        """The highest cost of these types, as the end of a sentence. Empty: a price is unknown."""
        asked, given = self._highest_price(self._own), self._highest_price(types)
        if asked is None or given is None or given <= asked:
            return ""
        return f": at most {format_usd(given)} instead of {format_usd(asked)} an hour for each GPU"

    @property
    def _own(self) -> Sequence[str]:
        """The GPU types that it asks for: where it leaves them open, any of the pool."""
        in_pool = {node.gpu_type for node in self.nodes if node.gpu_ids}
        return self.workload.shape.gpu_types or sorted(in_pool)

    def _is_allowed(self, gpu_type: str) -> bool:
        permitted = self.policy.permissions.of(self.workload.team).gpu_types
        return (permitted is None or gpu_type in permitted) and self._is_payable(gpu_type)

    def _is_there(self, gpu_type: str) -> bool:
        return never_fits(self.workload.shape._replace(gpu_types=(gpu_type,)), self.nodes) is None

    def _is_payable(self, gpu_type: str) -> bool:
        """On each kind of capacity on which it may get it."""
        return all(self._is_payable_on(gpu_type, kind) for kind in self._kinds([gpu_type]))

    def _is_payable_on(self, gpu_type: str, kind: str) -> bool:
        price = self.policy.price_micro_usd_per_gpu_hour(gpu_type, kind)
        asked = self._highest_price(self._own, (kind,))
        if price is None or asked is None:
            return False
        return price <= self.policy.memory.max_cost_factor * asked

    def _highest_price(
        self, types: Sequence[str], kinds: Sequence[str] | None = None
    ) -> int | None:
        """The highest price of these; None if no price is known."""
        used = self._kinds(types) if kinds is None else kinds
        prices = [self.policy.price_micro_usd_per_gpu_hour(t, k) for t in types for k in used]
        return max((price for price in prices if price is not None), default=None)

    def _kinds(self, types: Sequence[str]) -> Sequence[str]:
        asked = self.workload.shape.capacity_type
        found = {node.capacity_type for node in self.nodes if node.gpu_type in types}
        return sorted(kind for kind in found if asked in (None, kind))

    def _rank(self, gpu_type: str) -> tuple[bool, int, int, str]:
        price = self._highest_price([gpu_type])
        return price is None, price or 0, _memory_gib(gpu_type), gpu_type


def _memory_gib(gpu_type: str) -> int:
    """0: it is unknown."""
    known = GPU_TYPES.get(gpu_type)
    return 0 if known is None else known.memory_gib
