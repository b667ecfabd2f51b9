"""Which nodes should come or go."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.workload import Hold, Workload
from gpu_core.decisions.policy.scale import Offer, ScalePolicy
from gpu_core.decisions.scheduling.plan.plan import ScaleDown, ScaleUp, Trigger
from gpu_core.decisions.scheduling.scaling.scale_hints import ScaleState, scale_hints
from gpu_core.testing.builders.workloads import (
    NOW,
    ago,
    make_allocation,
    make_node,
    make_policy,
    make_workload,
)

A100 = Flavor("a100-80gb", "on-demand")
SPOT = Flavor("a100-80gb", "spot")
T4 = Flavor("t4", "on-demand")
OFFERS = (
    Offer(gpu_type="a100-80gb", gpus_per_node=8, gpu_memory_gib=80),
    Offer(gpu_type="a100-80gb", capacity_type="spot", gpus_per_node=8, gpu_memory_gib=80),
    Offer(gpu_type="t4", gpus_per_node=4),
)
POLICY = ScalePolicy(offers=OFFERS)
HOLD = Hold(reason="Held", summary="", resolution="")


def state(**changes: Any) -> ScaleState:
    values: dict[str, Any] = {"nodes": (), "allocations": (), "pending": ()}
    return ScaleState(**(values | changes))


def capped(max_gpus: int | None) -> ScalePolicy:
    return ScalePolicy(offers=OFFERS, max_gpus=max_gpus)


def ups(state: ScaleState, policy: ScalePolicy = POLICY) -> dict[Flavor, ScaleUp]:
    hints = scale_hints(state, policy, NOW)
    return {hint.flavor: hint for hint in hints if isinstance(hint, ScaleUp)}


def downs(state: ScaleState, policy: ScalePolicy = POLICY) -> list[str]:
    return [hint.node for hint in scale_hints(state, policy, NOW) if isinstance(hint, ScaleDown)]


def waiting(workload_id: str = "w", gpus: int = 1, for_s: float = 600, **more: Any) -> Workload:
    return make_workload(workload_id, gpus, submitted_at=ago(for_s), **more)


def busy(gpus: int, node: str = "n1") -> Any:
    ids = " ".join(str(gpu) for gpu in range(gpus))
    return make_allocation(make_workload("running", gpus), {node: ids})


@pytest.mark.parametrize(
    ("changes", "triggers", "nodes"),
    [
        pytest.param({"pending": (waiting(for_s=300),)}, None, 0, id="not over five minutes"),
        pytest.param({"pending": (waiting(for_s=301),)}, ("waiting",), 1, id="over five minutes"),
        pytest.param({"pending": (waiting(gpus=8, nodes=3),)}, ("waiting",), 3, id="a gang"),
        pytest.param(
            {"nodes": (make_node(),), "allocations": (busy(6),), "pending": (waiting(for_s=1),)},
            None,
            0,
            id="three quarters in use",
        ),
        pytest.param(
            {"nodes": (make_node(),), "allocations": (busy(7),), "pending": (waiting(for_s=1),)},
            ("utilization",),
            1,
            id="over 80% in use",
        ),
        pytest.param(
            {"nodes": (make_node(),), "allocations": (busy(8),)}, None, 0, id="full, none waits"
        ),
        pytest.param(
            {"pending": tuple(waiting(str(i), for_s=1) for i in range(10))}, None, 0, id="ten"
        ),
        pytest.param(
            {"pending": tuple(waiting(str(i), for_s=1) for i in range(11))},
            ("queued",),
            2,
            id="over ten",
        ),
        pytest.param(
            {"nodes": (make_node(),), "pending": (waiting(gpus=8), waiting("v", gpus=8))},
            ("waiting",),
            1,
            id="what is free is counted",
        ),
        pytest.param({"scheduled_nodes": {A100: 2}}, ("calendar",), 2, id="the calendar"),
        pytest.param(
            {"nodes": (make_node(), make_node("n2")), "scheduled_nodes": {A100: 2}},
            None,
            0,
            id="the calendar has what it wants",
        ),
        pytest.param({"pending": (waiting(hold=HOLD),)}, None, 0, id="a held one asks nothing"),
        pytest.param({"pending": (waiting(gpus=0),)}, None, 0, id="nor one without GPUs"),
        pytest.param(
            {"pending": (waiting(),), "not_for_gpus": frozenset({"w"})}, None, 0, id="nor by quota"
        ),
        pytest.param({"pending": (waiting(gpus=16),)}, None, 0, id="nor one too large for a node"),
    ],
)
def test_when_nodes_should_come(
    changes: dict[str, Any], triggers: tuple[str, ...] | None, nodes: int
) -> None:
    hint = ups(state(**changes)).get(A100)
    if triggers is None:
        assert hint is None
        return
    assert hint is not None
    assert hint.triggers == tuple(Trigger(trigger) for trigger in triggers)
    assert hint.nodes == nodes


@pytest.mark.parametrize(
    ("wants", "flavor"),
    [
        pytest.param({}, A100, id="anything: the first offer"),
        pytest.param({"gpu_types": ("t4", "a100-80gb")}, T4, id="its favorite type"),
        pytest.param({"gpu_types": ("t4", "a100-80gb"), "gpu_count": 8}, A100, id="that is enough"),
        pytest.param({"capacity_type": "spot"}, SPOT, id="its capacity type"),
        pytest.param({"gpu_memory_gib": 40, "gpu_types": ("t4",)}, None, id="unknown memory"),
    ],
)
def test_which_flavor_should_come(wants: dict[str, Any], flavor: Flavor | None) -> None:
    assert list(ups(state(pending=(waiting(**wants),)))) == ([] if flavor is None else [flavor])


def test_a_hint_says_for_whom_and_with_which_numbers() -> None:
    hint = ups(state(nodes=(make_node(),), allocations=(busy(8),), pending=(waiting(gpus=3),)))
    assert hint[A100] == ScaleUp(
        flavor=A100,
        nodes=1,
        target_nodes=2,
        workload_ids=("w",),
        triggers=(Trigger.WAITING, Trigger.UTILIZATION),
        reason="a workload has been pending for 10m 00s, 100% of the GPUs are in use",
    )


def test_never_over_the_cap() -> None:
    pending = (waiting(gpus=8, nodes=5), waiting("v", gpu_types=("t4",)))
    crowded = state(nodes=(make_node(),), pending=pending)
    hints = ups(crowded, capped(30))
    assert {flavor: hint.nodes for flavor, hint in hints.items()} == {A100: 2, T4: 1}
    assert hints[A100].reason.endswith("2 more would exceed the limit")
    assert list(ups(crowded, capped(27))) == [A100], "what the first took is gone for the second"
    assert not ups(crowded, capped(4))


IDLE = state(nodes=(make_node("n1"), make_node("n2")), idle_since={"n1": ago(600), "n2": ago(900)})


@pytest.mark.parametrize(
    ("changes", "gone"),
    [
        pytest.param({}, ["n2", "n1"], id="longest idle first"),
        pytest.param({"idle_since": {"n1": ago(599), "n2": ago(600)}}, ["n2"], id="ten minutes"),
        pytest.param({"idle_since": {}}, [], id="unknown since when"),
        pytest.param({"allocations": (busy(1, "n2"),)}, ["n1"], id="in use"),
        pytest.param({"kept_nodes": frozenset({"n2"})}, ["n1"], id="kept for someone"),
        pytest.param({"scheduled_nodes": {A100: 1}}, ["n2"], id="the calendar keeps one"),
        pytest.param({"pending": (waiting(for_s=1),)}, [], id="someone could use them"),
        pytest.param(
            {"pending": (waiting(for_s=1),), "not_for_gpus": frozenset({"w"})},
            [],
            id="someone could, once its quota lets it",
        ),
        pytest.param({"pending": (waiting(gpu_types=("t4",)),)}, ["n2", "n1"], id="not these"),
        pytest.param(
            {"pending": (waiting(node_labels=(("zone", "b"),)),)}, ["n2", "n1"], id="not there"
        ),
        pytest.param({"pending": (waiting(hold=HOLD),)}, ["n2", "n1"], id="held"),
    ],
)
def test_which_nodes_may_go(changes: dict[str, Any], gone: list[str]) -> None:
    assert downs(replace(IDLE, **changes)) == gone


@given(
    st.lists(st.tuples(st.integers(1, 8), st.sampled_from(["t4", "a100-80gb"])), max_size=15),
    st.integers(0, 3),
    st.integers(0, 3),
    st.one_of(st.none(), st.integers(0, 64)),
)
def test_never_flaps(
    wanted: list[tuple[int, str]], existing: int, scheduled: int, max_gpus: int | None
) -> None:
    """Up and down never for the same flavor, and what came is not sent away again."""
    policy = capped(max_gpus)
    before = state(
        nodes=tuple(make_node(f"n{i}") for i in range(existing)),
        idle_since={f"n{i}": ago(3_600) for i in range(existing + 40)},
        pending=tuple(waiting(str(i), gpus=n, gpu_types=(t,)) for i, (n, t) in enumerate(wanted)),
        scheduled_nodes={A100: scheduled},
    )
    up = ups(before, policy).get(A100)
    if up is None:
        return
    assert not downs(before, policy)
    came = tuple(make_node(f"n{i}") for i in range(up.target_nodes))
    assert not downs(replace(before, nodes=came), policy)
    assert max_gpus is None or up.target_nodes * 8 <= max_gpus


def test_no_kind_is_offered_twice() -> None:
    """It would be asked for twice."""
    spot = {"gpu_type": "t4", "capacity_type": "spot", "gpus_per_node": 4}
    policy = make_policy(scale={"offers": [spot, spot | {"capacity_type": "on-demand"}]})
    assert [offer.flavor for offer in policy.scale.offers] == [Flavor("t4", "spot"), T4]
    with pytest.raises(InvalidInput, match=r"scale\.offers\.1"):
        make_policy(scale={"offers": [spot, spot | {"gpus_per_node": 8}]})
