"""The zone that a new attempt on spot prefers, of those that have room for it now."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from gpu_core.decisions.model.cluster import SPOT, Placement
from gpu_core.decisions.model.virtual_nodes import planned_kind
from gpu_core.decisions.model.workload import Shape, Workload
from gpu_core.decisions.spot.capacity_view import CapacityView
from gpu_core.decisions.spot.node_avoidance import zone_of
from gpu_core.decisions.spot.zones import choose_zone


class _Preference(NamedTuple):
    nodes: frozenset[str]
    reason: str


class PreferredZones:
    """The zones that workloads prefer, at one moment.

    Args:
        view: What there is, with what is known of its zones.
    """

    def __init__(self, view: CapacityView) -> None:
        self._view = view
        self._zones: dict[tuple[str, bool], Mapping[str, frozenset[str]]] = {}
        self._known: dict[Shape, _Preference | None] = {}

    def forget(self) -> None:
        """Something was allocated: there may be less room than before."""
        self._known.clear()

    def preferring(self, workload: Workload) -> Workload:
        """The workload with the nodes of the zone that it prefers, if it is to be on spot.

        Only what it would get anyhow is compared: nodes of the GPU type that it gets now, and only
        those that are there if it goes to such a one. Nothing is preferred where nothing is known
        of the zones, or all have just failed.
        """
        view = self._view
        is_for_spot = workload.shape.capacity_type == SPOT or view.is_spot_only
        if not view.stays or not is_for_spot or not workload.shape.gpu_count:
            return workload
        shape = workload.shape
        if shape not in self._known:
            self._known[shape] = self._preference(workload)
        found = self._known[shape]
        if found is None:
            return workload
        preferring = shape._replace(preferred_nodes=found.nodes)
        return replace(workload, shape=preferring, zone_reason=found.reason)

    def _preference(self, workload: Workload) -> _Preference | None:
        view = self._view
        placement = view.find(workload, SPOT)
        if placement is None or placement.gpu_type is None:
            return None
        nodes = self._by_zone(placement.gpu_type, is_planned=_is_planned(placement))
        choice = choose_zone(
            [zone for zone in nodes if view.find(workload, SPOT, nodes[zone]) is not None],
            view.stays.get(placement.gpu_type, ()),
            view.policy.capacity.zones,
            changeover_s=view.changeover(workload).loss_s,
            now=view.now,
        )
        is_known = any(score.stays for score in choice.scores)
        if choice.zone is None or len(choice.scores) == 1 or not is_known:
            return None
        return _Preference(nodes[choice.zone], choice.reason)

    def _by_zone(self, gpu_type: str, *, is_planned: bool) -> Mapping[str, frozenset[str]]:
        """The spot nodes of this type in each zone, by the zone's name."""
        key = gpu_type, is_planned
        if key not in self._zones:
            names: dict[str, set[str]] = defaultdict(set)
            for node in self._view.nodes:
                zone = zone_of(node)
                is_alike = node.gpu_type == gpu_type and node.capacity_type == SPOT
                if zone is not None and is_alike and (is_planned or not node.is_planned):
                    names[zone].add(node.name)
            self._zones[key] = {zone: frozenset(names[zone]) for zone in sorted(names)}
        return self._zones[key]


def _is_planned(placement: Placement) -> bool:
    return any(planned_kind(share.node) is not None for share in placement.shares)
