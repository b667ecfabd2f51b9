"""What the next attempt of a run gets that ran out of memory."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.requests.out_of_memory.healing import with_enough_memory
from gpu_core.testing.builders.attempts import make_attempt
from gpu_core.testing.builders.workloads import (
    make_node,
    make_policy,
    make_workload,
    with_shape,
)

TORCH = "Failure 1 of 3: OutOfMemoryError: CUDA out of memory. Retrying the run."
KILLED = "Failure 1 of 3: exit code 137 (OOMKilled). Retrying the run."
GIB = 1024

NODES = (
    make_node("small", gpu_type="t4", gpu_memory_gib=16, memory_mib=64 * GIB),
    make_node("middle", gpu_type="a100-80gb", memory_mib=256 * GIB),
    make_node("large", gpu_type="h200", gpu_memory_gib=141, memory_mib=512 * GIB),
)
PRICES = {
    "t4": {"on-demand": 0.4},
    "a100-80gb": {"on-demand": 3.6},
    "h200": {"on-demand": 7.2},
}


def policy(**memory):
    return make_policy(prices=PRICES, memory=memory)


SHRINK = policy(action="shrink")


def ended(number=1, message=TORCH, gpu_type="t4", **fields):
    return make_attempt(
        "r",
        *(number,),
        gpu_type=gpu_type,
        end_reason=EndReason.FAILED,
        end_message=message,
        **fields,
    )


@pytest.mark.parametrize(
    ("earlier", "rules", "want"),
    [
        pytest.param([], SHRINK, 1, id="the first attempt"),
        pytest.param([ended()], SHRINK, 2, id="half after one"),
        pytest.param([ended(1), ended(2)], SHRINK, 8, id="an eighth after two"),
        pytest.param(
            [ended(1), ended(2, micro_batch_divisor=8)], SHRINK, 8, id="never over the bound"
        ),
        pytest.param([ended(micro_batch_divisor=2)], SHRINK, 4, id="half of what it had"),
        pytest.param(
            [ended(number) for number in range(1, 10)],
            *(policy(action="shrink", max_divisor=6), 4),
            id="a bound that is no power of two",
        ),
        pytest.param([ended()], policy(), 1, id="off by default"),
        pytest.param([ended(message=KILLED)], SHRINK, 1, id="host memory is not the GPU's"),
    ],
)
def test_by_how_much_the_micro_batch_is_divided(earlier, rules, want):
    found = with_enough_memory(make_workload(), earlier, NODES, rules)
    assert found.micro_batch_divisor == want
    assert (found.micro_batch_reason is None) is (want == 1)


LARGER = policy(action="larger-gpu", gpu_types=["a100-80gb", "h200"], max_cost_factor=9)


@pytest.mark.parametrize(
    ("asked", "earlier", "rules", "want_types", "want_divisor"),
    [
        pytest.param(("t4",), [ended()], LARGER, ("a100-80gb",), 1, id="the next within the cost"),
        pytest.param(
            *(("t4",), [ended()], policy(action="larger-gpu", gpu_types=["a100-80gb", "h200"])),
            *(("t4",), 2),
            id="too dear, so the micro-batch is halved",
        ),
        pytest.param(
            *(("t4",), [ended()]),
            policy(action="larger-gpu", gpu_types=["h200", "a100-80gb"], max_cost_factor=18),
            *(("a100-80gb", "h200"), 1),
            id="all larger ones, the cheapest first",
        ),
        pytest.param(
            *(("t4",), [ended(1), ended(2, gpu_type="a100-80gb")], LARGER),
            *(("a100-80gb",), 4),
            id="no larger one is left for the last of three attempts",
        ),
        pytest.param(
            *(("t4", "h200"), [ended()], policy(action="larger-gpu")),
            *(("h200",), 1),
            id="what it asks for itself needs no limit",
        ),
        pytest.param(
            *((), [ended()], policy(action="larger-gpu"), ("a100-80gb", "h200"), 1),
            id="any type is asked for",
        ),
        pytest.param(
            *(("t4",), [ended()], policy(action="larger-gpu"), ("t4",), 2),
            id="the policy allows none",
        ),
        pytest.param(
            *(("t4",), [ended(gpu_type="unheard-of")], LARGER, ("t4",), 2),
            id="a type without known memory",
        ),
        pytest.param(
            *(("t4",), [ended()]),
            policy(action="larger-gpu", gpu_types=["l40s"], max_cost_factor=99),
            *(("t4",), 2),
            id="the pool has none of it",
        ),
    ],
)
def test_which_gpu_types_it_gets(asked, earlier, rules, want_types, want_divisor):
    found = with_enough_memory(make_workload(gpu_types=asked), earlier, NODES, rules)
    assert (found.shape.gpu_types, found.micro_batch_divisor) == (want_types, want_divisor)


def test_a_dearer_type_is_said_with_both_prices():
    found = with_enough_memory(make_workload(gpu_types=("t4",)), [ended()], NODES, LARGER)
    assert found.gpu_type_reason == (
        "attempt 1 ran out of GPU memory on t4: at most $3.60 instead of $0.4000 an hour for "
        "each GPU"
    )


def test_a_type_that_its_team_may_not_use_is_not_taken():
    rules = make_policy(
        prices=PRICES,
        memory={"action": "larger-gpu", "gpu_types": ["a100-80gb"], "max_cost_factor": 9},
        permissions={"default": {"gpu_types": ["t4"]}},
    )
    found = with_enough_memory(make_workload(gpu_types=("t4",)), [ended()], NODES, rules)
    assert (found.shape.gpu_types, found.micro_batch_divisor) == (("t4",), 2)


def test_a_part_of_a_gpu_is_not_exchanged_for_a_larger_one():
    workload = make_workload(gpu_types=("t4",), gpu_share_milli=500)
    found = with_enough_memory(workload, [ended()], NODES, LARGER)
    assert (found.shape.gpu_types, found.micro_batch_divisor) == (("t4",), 2)


def short_of_host(gib, number=1, nodes=1):
    shares = tuple(NodeShare(node=f"n{n}", gpu_ids=("0",)) for n in range(nodes))
    return ended(number, KILLED, memory_mib=gib * GIB * nodes, shares=shares)


DOUBLE = policy(host_factor=2)


@pytest.mark.parametrize(
    ("asked_gib", "earlier", "rules", "want_gib", "want_reason"),
    [
        pytest.param(
            *(64, [short_of_host(64)], DOUBLE, 128, "128 GiB, because attempt 1 ran out of 64 GiB"),
            id="twice as much",
        ),
        pytest.param(
            *(64, [short_of_host(64), short_of_host(128, 2)], DOUBLE, 256),
            "256 GiB, because attempt 2 ran out of 128 GiB",
            id="twice as much again",
        ),
        pytest.param(
            *(64, [short_of_host(64, nodes=2)], DOUBLE, 128),
            "128 GiB, because attempt 1 ran out of 64 GiB",
            id="on each node of a gang",
        ),
        pytest.param(
            *(64, [short_of_host(64)], policy(host_factor=2, host_limit_gib=96), 96),
            "96 GiB, because attempt 1 ran out of 64 GiB",
            id="up to the limit",
        ),
        pytest.param(
            *(64, [short_of_host(64)], policy(host_factor=2, host_limit_gib=48), 64),
            "attempt 1 ran out of 64 GiB, and the maximum is 48 GiB (memory.host_limit_gib)",
            id="a limit below the request",
        ),
        pytest.param(
            *(300, [short_of_host(300)], DOUBLE, 300),
            "attempt 1 ran out of 300 GiB, but 600 GiB is not available on any node",
            id="more than any node has",
        ),
        pytest.param(100, [short_of_host(64)], DOUBLE, 100, None, id="its request was raised"),
        pytest.param(64, [ended()], DOUBLE, 64, None, id="GPU memory is not the host's"),
        pytest.param(64, [short_of_host(64)], policy(), 64, None, id="off by default"),
        pytest.param(0, [short_of_host(64)], DOUBLE, 0, None, id="a pool that plans no memory"),
        pytest.param(
            *(64, [ended(message=KILLED)], DOUBLE, 64, None), id="it is unknown what it had"
        ),
    ],
)
def test_how_much_main_memory_it_gets(asked_gib, earlier, rules, want_gib, want_reason):
    workload = make_workload(memory_mib=asked_gib * GIB)
    found = with_enough_memory(workload, earlier, NODES, rules)
    assert (found.shape.memory_mib, found.memory_reason) == (want_gib * GIB, want_reason)


def test_what_an_earlier_run_learned_stands_before_its_own_attempts():
    learned = [ended(1), ended(2, micro_batch_divisor=2)]
    first = with_enough_memory(make_workload(), [], NODES, SHRINK, learned=learned)
    assert first.micro_batch_divisor == 8
    assert first.micro_batch_reason.endswith(
        "because an earlier run of the deployment ran out of GPU memory"
    )
    own = replace(ended(1, micro_batch_divisor=8), flow_run_id="own")
    rules = policy(action="shrink", max_divisor=32)
    second = with_enough_memory(make_workload(), [own], NODES, rules, learned=learned)
    assert second.micro_batch_divisor == 16, "half of what was enough before"
    assert second.micro_batch_reason.endswith("because attempt 1 ran out of GPU memory")


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        pytest.param(
            {"asked_for_micro_batch": True}, "if the flow calls micro_batch()", id="it asks"
        ),
        pytest.param({}, "if the flow calls micro_batch()", id="it is not known whether it asks"),
        pytest.param(
            {"asked_for_micro_batch": False},
            "which has no effect until the flow calls micro_batch(), because attempt 1 ran out",
            id="it does not ask",
        ),
    ],
)
def test_a_flow_that_does_not_ask_is_said_to_gain_nothing(asked, want):
    found = with_enough_memory(make_workload(), [ended(settlement=asked)], NODES, SHRINK)
    assert want in found.micro_batch_reason
    assert len(found.micro_batch_reason) <= 120


attempts = st.lists(
    st.builds(
        ended,
        number=st.integers(1, 9),
        message=st.sampled_from([TORCH, KILLED, "ValueError: no data", None]),
        gpu_type=st.sampled_from(["t4", "a100-80gb", "h200", "unheard-of"]),
        memory_mib=st.none() | st.integers(1, 10**9),
        micro_batch_divisor=st.none() | st.sampled_from([2, 4, 8, 64]),
    ),
    max_size=6,
)
rules_of_memory = st.builds(
    policy,
    action=st.sampled_from(["off", "shrink", "larger-gpu"]),
    max_divisor=st.integers(2, 64),
    max_cost_factor=st.floats(1, 30),
    host_factor=st.none() | st.floats(1.01, 8),
)


@given(
    own=attempts,
    learned=attempts,
    rules=rules_of_memory,
    allowed=st.sets(st.sampled_from(["a100-80gb", "h200", "l4"])),
    asked=st.sampled_from([(), ("t4",), ("t4", "a100-80gb")]),
    limit_gib=st.none() | st.integers(1, 600),
)
def test_never_more_than_the_policy_allows(own, learned, rules, allowed, asked, limit_gib):
    memory = rules.memory.model_copy(
        update={"gpu_types": tuple(allowed), "host_limit_gib": limit_gib}
    )
    rules = rules.model_copy(update={"memory": memory})
    workload = make_workload(gpu_types=asked, memory_mib=64 * GIB)
    found = with_enough_memory(workload, own, NODES, rules, learned=learned)
    assert 1 <= found.micro_batch_divisor <= memory.max_divisor
    most_mib = 512 * GIB if limit_gib is None else limit_gib * GIB
    asked_mib = workload.shape.memory_mib
    assert asked_mib <= found.shape.memory_mib <= max(asked_mib, most_mib)
    if asked:
        highest = max(PRICES[name]["on-demand"] for name in asked)
        for name in set(found.shape.gpu_types) - set(asked):
            assert name in allowed
            assert PRICES[name]["on-demand"] <= memory.max_cost_factor * highest
    without = replace(
        with_shape(found, memory_mib=asked_mib, gpu_types=asked),
        memory_reason=None,
        gpu_type_reason=None,
        micro_batch_divisor=1,
        micro_batch_reason=None,
    )
    assert without == workload
    if memory.action == "off" and memory.host_factor is None:
        assert found == workload
