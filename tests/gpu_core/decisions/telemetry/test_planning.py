"""Which measurements plans may read."""

from datetime import timedelta
from math import nan

from gpu_core.decisions.model.cluster import NodeShare, Placement
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.model.measurements import Measurements, NodeLoad
from gpu_core.decisions.telemetry.history import GpuWindow
from gpu_core.decisions.telemetry.planning import measurements_of, utilization_by_workload
from gpu_core.testing.builders.workloads import NOW, ago, make_allocation, make_node, make_workload

SINCE = NOW - timedelta(minutes=5)


def on(name, gpu, admitted_s):
    share = NodeShare(node="n1", gpu_ids=(gpu,), share_milli=250)
    placement = Placement(gpu_type="a100-80gb", capacity_type="on-demand", shares=(share,))
    return make_allocation(
        make_workload(name), {}, placement=placement, admitted_at=ago(admitted_s)
    )


def test_what_was_admitted_during_the_measured_minutes_is_left_out():
    found = measurements_of(
        [make_node("n1", 2, unhealthy_gpu_ids=frozenset({"1"}))],
        [on("early", "0", 600), on("late", "0", 299), on("on-a-broken-gpu", "1", 600)],
        SINCE,
        load_ratio={"n1": 0.4, "n2": 1.0},
        utilization={"early": 0.2, "late": 0.1, "gone": 0.5},
    )
    assert found == Measurements(
        loads={
            "n1": NodeLoad(load_ratio=0.4, held_milli=250),
            "n2": NodeLoad(load_ratio=1.0, held_milli=0),
        },
        utilization={"early": 0.2},
    )


def test_what_is_no_ratio_is_no_measurement():
    broken = {"n1": nan, "n2": -0.1, "n3": 1.01}
    found = measurements_of(
        [], [on("early", "0", 600)], SINCE, load_ratio=broken, utilization={"early": nan}
    )
    assert found == Measurements()


def minute(gpu_id, ago_s, ratio):
    summary = GpuSummary(gpu_id=gpu_id, samples=60, utilization_mean_ratio=ratio)
    return GpuWindow(minute=ago(ago_s), summary=summary)


def test_the_mean_of_the_last_minutes_of_all_gpus_of_a_run():
    windows = [
        *(minute("0", 600, 1.0), minute("0", 240, 0.2), minute("0", 180, 0.4)),
        *(minute("1", 240, 0.9), minute("1", 180, None)),
        minute("2", 240, 0.8),
    ]
    runs = [
        make_allocation(make_workload("one"), {"n1": "0"}),
        make_allocation(make_workload("two"), {"n1": "0 2"}),
        make_allocation(make_workload("a minute is unknown"), {"n1": "1"}),
        make_allocation(make_workload("not sampled"), {"n1": "0 3"}),
        make_allocation(make_workload("no GPU"), {}),
    ]
    found = utilization_by_workload(windows, runs, SINCE)
    assert {key: round(value, 3) for key, value in found.items()} == {"one": 0.3, "two": 0.467}
