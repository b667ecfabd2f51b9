"""The places where a run that was interrupted, or hung, is not tried again for now.

A place is what fails together: all spot machines of one GPU type in one zone, because the provider
takes them back together and has none left afterwards; everything that a provisioner may still add
of one kind; else one node. A place that failed is left alone, for twice as long after each further
failure in a row, as `zones` does it. So is all spot, once it has failed the run too often in a row.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from gpu_core.decisions.model.attempts import Attempt
from gpu_core.decisions.model.cluster import ZONE_LABEL, Node
from gpu_core.decisions.model.virtual_nodes import planned_kind
from gpu_core.decisions.policy.capacity import CapacityPolicy
from gpu_core.decisions.spot.zones import Stay, blocked_until

_Place = tuple[str | None, ...]


def avoided_nodes(
    attempts: Sequence[Attempt],
    nodes: Iterable[Node],
    policy: CapacityPolicy,
    now: datetime,
    changeover_s: float,
) -> frozenset[str]:
    """The nodes that the run's next attempt avoids.

    Args:
        attempts: All attempts of the run so far, by number.

    Returns:
        Their names. They may be all: who places it then avoids none.
    """
    return frozenset(avoided_until(attempts, nodes, policy, now, changeover_s))


def avoided_until(
    attempts: Sequence[Attempt],
    nodes: Iterable[Node],
    policy: CapacityPolicy,
    now: datetime,
    changeover_s: float,
) -> Mapping[str, datetime]:
    """The moment until which the run's next attempt avoids each of these nodes.

    Returns:
        By name, as `avoided_nodes` takes and returns them.
    """
    blocked = _blocked(attempts, policy, now, changeover_s)
    if not blocked:
        return {}
    places = (
        (node.name, _place(node.name, zone_of(node), node.gpu_type, node.capacity_type))
        for node in nodes
    )
    return {name: blocked[place] for name, place in places if place in blocked}


def spot_failures(attempts: Iterable[Attempt], changeover_s: float) -> tuple[datetime, ...]:
    """The interruptions of the run on spot before the stay there had paid, since one that did.

    A stay of `t` seconds makes `t - d` of progress. On on-demand, at `k` times the price, that
    would have cost as much when `t = d * k / (k - 1)`: two changeovers where on-demand costs twice
    as much. After a longer stay it is counted anew, as after one that spot did not end. What the
    run did on other capacity in between does not make spot any better.

    Args:
        attempts: Of the run, by number.
        changeover_s: What a start loses (`d`).
    """
    failures: list[datetime] = []
    for attempt in attempts:
        if attempt.capacity_type != "spot" or attempt.released_at is None:
            continue
        has_paid = (attempt.released_at - attempt.admitted_at).total_seconds() > 2 * changeover_s
        if has_paid or not attempt.lost_capacity:
            failures.clear()
        else:
            failures.append(attempt.released_at)
    return tuple(failures)


def spot_left_alone_until(
    attempts: Iterable[Attempt], policy: CapacityPolicy, now: datetime, changeover_s: float
) -> datetime | None:
    """The moment until which the run uses no spot at all, because spot fails it again and again.

    From the failure on that is one too many, for as long as a place that failed so often. Not for
    ever: spot that came and went for an hour may then last for days, which a long run would pay
    for on on-demand. A try that fails costs two changeovers at most, and the next one comes after
    twice the time.

    Args:
        attempts: Of the run, by number.
        policy: How many failures are allowed, and the back-off.

    Returns:
        None: it may use spot.
    """
    most, failures = policy.max_spot_interruptions, spot_failures(attempts, changeover_s)
    if most is None or len(failures) < most:
        return None
    until = failures[-1] + timedelta(seconds=policy.elsewhere.backoff_s(len(failures)))
    return until if until > now else None


def zone_of(node: Node) -> str | None:
    """The zone of the node; None: its labels do not say."""
    return node.labels.get(ZONE_LABEL)


def _blocked(
    attempts: Sequence[Attempt], policy: CapacityPolicy, now: datetime, changeover_s: float
) -> dict[_Place, datetime]:
    """The moment until which each place that failed recently is avoided."""
    stays: dict[_Place, list[Stay]] = defaultdict(list)
    for attempt in attempts:
        if not attempt.is_better_elsewhere or attempt.released_at is None:
            continue
        for place in _places(attempt):
            stays[place].append(
                Stay(
                    zone=attempt.zone or attempt.node,
                    began_at=attempt.admitted_at,
                    ended_at=attempt.released_at,
                )
            )
    until = {
        place: blocked_until(failures, policy.elsewhere, changeover_s, now)
        for place, failures in stays.items()
    }
    return {place: moment for place, moment in until.items() if moment is not None}


def _places(attempt: Attempt) -> set[_Place]:
    """Each node of a gang may have failed it, unless one is known to."""
    names = attempt.faulty_nodes or {share.node for share in attempt.held} or {attempt.node}
    return {_place(name, attempt.zone, attempt.gpu_type, attempt.capacity_type) for name in names}


def _place(node: str, zone: str | None, gpu_type: str | None, capacity_type: str) -> _Place:
    kind = planned_kind(node)
    if kind is not None:
        return ("kind", kind)
    if capacity_type == "spot":
        return ("spot", zone, gpu_type)
    return ("node", node)
