"""What a worker exports: names, bounded labels, and nothing for what is unknown."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.adapters.prometheus.exposition import exposition
from gpu_core.decisions.kubernetes.nodes.held_gpus import without_held
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.cluster import Machine, Node
from gpu_core.decisions.model.gpu_health import HealthVerdict, HeldGpu
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.telemetry.gpu_groups import gpu_groups
from gpu_core.decisions.telemetry.metrics import (
    MOST_VALUES,
    OTHER,
    GpuGroup,
    HourlyCost,
    WorkerFacts,
    withheld_micro_usd,
    worker_metrics,
)
from gpu_core.decisions.telemetry.samples import GpuSample, ThrottleReason

NOW = datetime(2026, 11, 25, tzinfo=UTC)


def lines(facts):
    """The answer to a scrape, without comments."""
    text = exposition(worker_metrics(facts)).decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


def family(facts, name):
    return next(each for each in worker_metrics(facts) if each.name == name)


def test_a_scrape_has_the_facts():
    facts = WorkerFacts(
        pool="gpu",
        waiting={Reason.WAITING_FOR_GPUS: 2},
        oldest_wait_s=60.0,
        running=3,
        starts=5,
        ends={EndReason.PREEMPTED: 1},
        gpus={GpuGroup("h100-80gb", "spot", "held"): 4},
        costs=(HourlyCost("llama", "vision", "training", 3_600_000.0),),
        steps_s={"plan": 0.25},
        cycles=7,
        cycle_ended_at_s=1000.0,
        team_cost_micro_usd={("vision", "day"): 12_500_000.0},
        ledger_read_at_s=990.0,
    )
    found = set(lines(facts))
    assert found >= {
        'prefect_gpu_runs_waiting{pool="gpu",reason="WaitingForGpus"} 2.0',
        'prefect_gpu_oldest_wait_seconds{pool="gpu"} 60.0',
        'prefect_gpu_runs_running{pool="gpu"} 3.0',
        'prefect_gpu_starts_total{pool="gpu"} 5.0',
        'prefect_gpu_attempts_ended_total{pool="gpu",reason="Preempted"} 1.0',
        'prefect_gpu_gpus{capacity_type="spot",gpu_type="h100-80gb",pool="gpu",state="held"} 4.0',
        'prefect_gpu_hourly_cost_usd{model="llama",pool="gpu",team="vision",'
        'workload_type="training"} 3.6',
        'prefect_gpu_cycle_step_seconds{pool="gpu",step="plan"} 0.25',
        'prefect_gpu_cycles_total{pool="gpu"} 7.0',
        'prefect_gpu_last_cycle_timestamp_seconds{pool="gpu"} 1000.0',
        'prefect_gpu_cost_usd{period="day",pool="gpu",team="vision"} 12.5',
        'prefect_gpu_ledger_read_timestamp_seconds{pool="gpu"} 990.0',
    }


def test_gpus_have_what_is_known_of_them():
    facts = WorkerFacts(
        pool="gpu",
        held_gpu_ids=frozenset({"GPU-a"}),
        samples=(
            GpuSample(
                gpu_id="GPU-a",
                at=NOW,
                utilization_ratio=0.5,
                energy_j=9.0,
                throttle_reasons=frozenset({ThrottleReason.THERMAL}),
            ),
            GpuSample(gpu_id="GPU-b", at=NOW, is_lost=True),
        ),
        verdicts={"GPU-b": HealthVerdict.RESET},
    )
    found = [line for line in lines(facts) if line.startswith("prefect_gpu_device")]
    verdicts = [line for line in found if "health" in line]
    assert [line for line in found if "health" not in line] == [
        'prefect_gpu_device_utilization_ratio{gpu="GPU-a"} 0.5',
        'prefect_gpu_device_energy_joules_total{gpu="GPU-a"} 9.0',
        'prefect_gpu_device_throttled{gpu="GPU-a",reason="thermal"} 1.0',
        'prefect_gpu_device_lost{gpu="GPU-a"} 0.0',
        'prefect_gpu_device_lost{gpu="GPU-b"} 1.0',
        'prefect_gpu_device_held{gpu="GPU-a"} 1.0',
        'prefect_gpu_device_held{gpu="GPU-b"} 0.0',
    ]
    assert [line for line in verdicts if line.endswith(" 1.0")] == [
        'prefect_gpu_device_health{gpu="GPU-b",verdict="reset"} 1.0'
    ]
    assert len(verdicts) == len(HealthVerdict)


def test_a_worker_that_has_not_scheduled_exports_no_moment():
    names = {line.split("{")[0] for line in lines(WorkerFacts(pool="gpu"))}
    assert "prefect_gpu_last_cycle_timestamp_seconds" not in names
    assert "prefect_gpu_ledger_read_timestamp_seconds" not in names


NAMES = st.one_of(st.none(), st.text(max_size=3), st.integers(0, 500).map(str))


@given(st.lists(st.tuples(NAMES, NAMES, NAMES, st.integers(0, 10**9)), max_size=200))
def test_labels_are_few_and_costs_add_up(rows):
    costs = tuple(HourlyCost(*row) for row in rows)
    found = family(WorkerFacts(pool="gpu", costs=costs), "prefect_gpu_hourly_cost_usd")
    for place in range(1, 4):
        assert len({labels[place] for labels in found.samples}) <= MOST_VALUES + 2
    assert sum(found.samples.values()) == pytest.approx(sum(row[3] for row in rows) / 1e6)


def test_the_teams_that_spent_most_keep_their_names():
    spent = {(f"team-{n:03}", "month"): n * 1e6 for n in range(1, 101)}
    found = family(WorkerFacts(pool="gpu", team_cost_micro_usd=spent), "prefect_gpu_cost_usd")
    teams = {labels[1] for labels in found.samples}
    assert len(teams) == MOST_VALUES + 1
    assert {"team-100", "team-051", OTHER} <= teams
    assert "team-050" not in teams
    assert sum(found.samples.values()) == 5050


def test_what_has_no_price_is_left_out_and_not_free():
    facts = WorkerFacts(pool="gpu", costs=(HourlyCost(None, None, None, None),))
    assert family(facts, "prefect_gpu_hourly_cost_usd").samples == {}


def test_five_thousand_runs_are_answered_in_a_tenth_of_a_second():
    """By processor time, which other work on the machine does not change much."""
    costs = tuple(HourlyCost(f"m{n % 300}", f"t{n % 90}", "training", 1e6) for n in range(5000))
    facts = WorkerFacts(pool="gpu", waiting=dict.fromkeys(Reason, 200), costs=costs)
    exposition(worker_metrics(facts))
    took_s = []
    for _ in range(5):
        began_s = time.process_time()
        exposition(worker_metrics(facts))
        took_s.append(time.process_time() - began_s)
    assert min(took_s) < 0.1


def test_gpus_are_counted_once_each():
    nodes = [
        Node(
            name="a",
            gpu_type="t4",
            gpu_ids=("1", "2", "3"),
            unhealthy_gpu_ids=frozenset({"2", "3"}),
        ),
        Node(name="b", gpu_type="t4", gpu_ids=("1",), capacity_type="spot"),
    ]
    assert gpu_groups(nodes, {("a", "1"), ("a", "3")}) == {
        GpuGroup("t4", "on-demand", "held"): 2,
        GpuGroup("t4", "on-demand", "unhealthy"): 1,
        GpuGroup("t4", "spot", "free"): 1,
    }


@pytest.mark.parametrize(
    ("used", "want"),
    [
        pytest.param("", {"unhealthy": 1, "withheld": 3}, id="all idle"),
        pytest.param("01", {"held": 2, "unhealthy": 1, "withheld": 1}, id="two runs continue"),
        pytest.param("0123", {"held": 4}, id="all in use"),
    ],
)
def test_well_gpus_that_get_no_runs_are_withheld_and_have_a_price(used, want):
    node = Node(name="a", gpu_type="t4", gpu_ids=("0", "1", "2", "3"), machine=Machine(gpus=4))
    held = HeldGpu(gpu_id="0", verdict=HealthVerdict.DRAIN, reason="", remedy="", found_at=None)
    found = gpu_groups([without_held(node, [held])], {("a", gpu_id) for gpu_id in used})
    assert found == {GpuGroup("t4", "on-demand", state): n for state, n in want.items()}
    prices = {("t4", "on-demand"): 500_000}
    cost = withheld_micro_usd(found, lambda *of: prices.get(of))
    assert cost == 500_000 * want.get("withheld", 0)
    assert withheld_micro_usd(found, lambda *of: None) == 0
    facts = WorkerFacts(pool="gpu", gpus=found, withheld_micro_usd=cost)
    samples = family(facts, "prefect_gpu_withheld_hourly_cost_usd").samples
    assert samples == {("gpu",): cost / 1e6}
