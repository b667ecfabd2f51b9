"""What the points of a Prometheus say of runs and nodes."""

from datetime import timedelta

import pytest

from gpu_core.decisions.policy.idle import IdlePolicy
from gpu_core.decisions.telemetry.cluster_use import (
    STEP_S,
    ClusterUse,
    cluster_queries,
    folded_activity,
    load_by_node,
    utilization_of,
)
from gpu_core.decisions.telemetry.idle_state import RunUse, idle_state
from gpu_core.decisions.telemetry.series import Series
from gpu_core.testing.builders.workloads import NOW

POD = ("vision", "train-0")
MIB = 2**20


def moment(number):
    return NOW + timedelta(seconds=STEP_S * number)


def gpu(number, *, utilization=0.0, pod="train-0", gpu_id="GPU-a", node="n1", used=0, total=1000):
    """The series of one GPU at one moment, as the older dcgm-exporter has them. None: no series."""
    labels = {"UUID": gpu_id, "gpu": "0", "Hostname": node, "namespace": "vision", "pod": pod}
    values = {
        "DCGM_FI_DEV_GPU_UTIL": None if utilization is None else 100 * utilization,
        "DCGM_FI_DEV_FB_USED": used,
        "DCGM_FI_DEV_FB_FREE": None if total is None else total - used,
    }
    return [
        Series(name=name, labels=labels, value=value, at=moment(number))
        for name, value in values.items()
        if value is not None
    ]


def cores(number, value, pod="train-0"):
    labels = {"namespace": "vision", "pod": pod}
    return [Series(name="", labels=labels, value=value, at=moment(number))]


def judged(points, *, gpu_count=1, pods=(POD,), until):
    """How idle is the attempt after these points, asked for one after the other?"""
    use, activity = ClusterUse(), None
    for gpus, processors in points:
        use = use.with_points([*gpus, *processors])
        activity = folded_activity(activity, use, pods, gpu_count, NOW)
    if activity is None:
        return None
    return idle_state(activity, RunUse(), None, IdlePolicy(), moment(until))


# 45 minutes: the grace and the 30 minutes of the policy are over.
LONG = 90


@pytest.mark.parametrize(
    ("of_gpu", "of_cores", "want"),
    [
        pytest.param({}, 0.01, True, id="no work at all"),
        pytest.param({"utilization": 0.5}, 0.01, False, id="it computes"),
        pytest.param({}, 1.0, False, id="its processor works"),
        pytest.param({}, None, False, id="its processor is not known"),
        pytest.param({"utilization": None}, 0.01, False, id="its utilization is not known"),
        pytest.param({"utilization": 9.0}, 0.01, False, id="its utilization is no ratio"),
    ],
)
def test_a_run_in_pods_is_idle_when_all_signals_are_known_and_quiet(of_gpu, of_cores, want):
    points = [
        (gpu(n, **of_gpu), [] if of_cores is None else cores(n, of_cores)) for n in range(LONG)
    ]
    assert judged(points, until=LONG).is_idle is want


def test_points_that_are_late_count_as_activity():
    points = [(gpu(n), cores(n, 0.01)) for n in range(LONG)]
    finding = judged(points, until=LONG + 5)
    assert not finding.is_idle
    assert "delayed" in finding.text


def test_one_answer_twice_and_answers_that_overlap_change_nothing():
    once = [(gpu(n), cores(n, 0.01)) for n in range(LONG)]
    overlapping = [
        (
            [*(gpu(n - 1) if n else []), *gpu(n)],
            [*(cores(n - 1, 0.01) if n else []), *cores(n, 0.01)],
        )
        for n in range(LONG)
        for _ in range(2)
    ]
    assert judged(overlapping, until=LONG) == judged(once, until=LONG)


def test_a_burst_between_the_points_of_one_pod_of_two_begins_the_time_anew():
    points = []
    for n in range(LONG):
        busy = 1.0 if n == LONG - 10 else 0.0
        second = gpu(n, pod="train-1", gpu_id="GPU-b", utilization=busy)
        points.append(([*gpu(n), *second], [*cores(n, 0.0), *cores(n, 0.0, "train-1")]))
    pods = (POD, ("vision", "train-1"))
    assert not judged(points, gpu_count=2, pods=pods, until=LONG).is_idle
    assert judged(points[: LONG - 10], gpu_count=2, pods=pods, until=LONG - 10).is_idle


def test_a_run_is_not_judged_until_all_of_its_gpus_are_known():
    points = [(gpu(n), cores(n, 0.0)) for n in range(LONG)]
    assert judged(points, gpu_count=2, until=LONG) is None
    assert judged(points, pods=(("vision", "train-9"),), until=LONG) is None
    assert judged([], until=0) is None


def test_the_load_of_a_node_is_the_larger_of_utilization_and_memory():
    use = ClusterUse()
    for n in range(4):
        points = [
            *gpu(n, utilization=0.2 if n < 2 else 0.6, used=300),
            *gpu(n, gpu_id="GPU-b", utilization=0.1, used=800),
            *gpu(n, gpu_id="GPU-c", node="n2", utilization=0.5, total=None),
        ]
        use = use.with_points(points)
    # GPU-a: 0.3 and 0.6 for half of the time each; GPU-b: 0.8.
    assert load_by_node(use) == {"n1": pytest.approx((0.45 + 0.8) / 2)}


def test_the_utilization_of_a_run_is_that_of_all_of_its_gpus():
    points = [*gpu(0, utilization=0.2), *gpu(0, gpu_id="GPU-b", utilization=0.4)]
    use = ClusterUse().with_points(points)
    assert utilization_of(use, [POD], 2) == pytest.approx(0.3)
    assert utilization_of(use, [POD], 3) is None
    assert utilization_of(use, [("vision", "other")], 2) is None
    assert utilization_of(use.since(moment(1)), [POD], 2) is None


def test_two_questions_soon_after_each_other_have_the_same_moments():
    asked = ((NOW + timedelta(seconds=s), ["n1"], ["vision"]) for s in (31, 59))
    one, two = (cluster_queries(*each) for each in asked)
    assert one == two
    assert (one[0].end - NOW).total_seconds() == STEP_S
    assert one[0].end - one[0].start == timedelta(seconds=2 * STEP_S)


@pytest.mark.parametrize(
    ("nodes", "namespaces", "want"),
    [
        pytest.param(["n1", "n2"], ["vision"], 2, id="both"),
        pytest.param(["n1", "n2"], [], 1, id="no pod of ours"),
        pytest.param([], ["vision"], 2, id="nodes that are not known"),
        pytest.param([], [], 0, id="nothing is ours"),
    ],
)
def test_the_questions_are_about_our_nodes_and_namespaces(nodes, namespaces, want):
    queries = [each.query for each in cluster_queries(NOW, nodes, namespaces)]
    assert len(queries) == want
    for query in queries:
        selectors = query.split(" or ")
        assert all('=~"n1|n2"' in each or '=~"vision"' in each for each in selectors), query
