"""What the GPUs of pods did, asked of a real Prometheus that knows an hour of dcgm-exporter."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import anyio
import pytest

from gpu_core.decisions.policy.idle import IdlePolicy
from gpu_core.decisions.policy.telemetry import TelemetryPolicy
from gpu_core.decisions.telemetry.idle_state import RunUse, idle_state
from gpu_core.testing.builders.workloads import make_allocation, make_policy, make_workload
from gpu_core.worker.kubernetes.jobs.pod_telemetry import PodTelemetry
from gpu_core.worker.kubernetes.jobs.pod_use import PodUse
from tests.support.prometheus import backfill, run_prometheus

ENDED = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)
BEGUN = ENDED - timedelta(hours=1)

OLD = 'UUID="GPU-old",gpu="0",Hostname="n1",pod="dcgm-x",namespace="gpu-operator"'
NEW = 'UUID="GPU-new",gpu="1",hostname="n2"'
OF_TRAIN_0 = 'exported_pod="train-0",exported_namespace="vision"'
OF_TRAIN_1 = 'pod="train-1",namespace="vision"'
OF_OTHERS = 'pod="train-10",namespace="vision"'


def past():
    """Every 30 seconds; the first half busy, the second half idle."""
    rows = {
        f"DCGM_FI_DEV_GPU_UTIL{{{OLD},{OF_TRAIN_0}}}": lambda n: 80 if n < 60 else 0,
        f"DCGM_FI_DEV_FB_USED{{{OLD},{OF_TRAIN_0}}}": lambda n: 1024 + n,
        f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{OLD},{OF_TRAIN_0}}}": lambda n: 3_000_000 * n,
        f"DCGM_FI_DEV_GPU_TEMP{{{OLD},{OF_TRAIN_0}}}": lambda _: 9223372036854775794,
        f"DCGM_FI_DEV_GPU_UTIL_RATIO{{{NEW},{OF_TRAIN_1}}}": lambda _: 0.25,
        f'DCGM_FI_DEV_GPU_UTIL_RATIO{{UUID="GPU-x",gpu="2",{OF_OTHERS}}}': lambda _: 1.0,
    }
    lines = []
    for row, value in rows.items():
        lines.append(f"# TYPE {row.split('{')[0]} gauge")
        lines += [f"{row} {value(n)} {BEGUN.timestamp() + 30 * n:.0f}" for n in range(121)]
    return "\n".join([*lines, "# EOF\n"])


def pod(name):
    return {"metadata": {"name": name, "namespace": "vision"}}


@pytest.fixture
def url(tmp_path):
    backfill(tmp_path, past())
    with run_prometheus(tmp_path, []) as prometheus:
        while not prometheus.result("vector(1)"):
            pass
        yield prometheus.url


def ask(url, *pods):
    policy = TelemetryPolicy(prometheus_url=url)

    async def summaries():
        telemetry = PodTelemetry(answer_s=60.0)
        return await telemetry.summaries(policy, [pod(name) for name in pods], BEGUN, ENDED)

    return anyio.run(summaries)


def test_the_gpus_of_an_attempt_are_summed_up_over_two_generations_of_dcgm(url):
    new, old = ask(url, "train-0", "train-1")
    assert old.gpu_id == "GPU-old"
    assert old.utilization_mean_ratio == pytest.approx(0.4, abs=0.01)
    assert old.busy_ratio == pytest.approx(0.5, abs=0.01)
    assert old.memory_used_max_bytes == (1024 + 120) * 2**20
    assert old.energy_j == pytest.approx(3000 * 120)
    assert old.temperature_max_c is None, "a blank of DCGM is none"
    assert old.samples == pytest.approx(3600, abs=15)
    assert (new.gpu_id, new.utilization_mean_ratio) == ("GPU-new", 0.25)


def test_a_pod_that_prometheus_does_not_know_has_no_summary(url):
    assert ask(url, "train-2") == ()


def quiet_hour():
    """Every 30 seconds: a pod without work, one that is busy now and then, and their processors."""
    rows = {
        f"DCGM_FI_DEV_GPU_UTIL{{{OLD},{OF_TRAIN_0}}}": lambda _: 0,
        f"DCGM_FI_DEV_FB_USED{{{OLD},{OF_TRAIN_0}}}": lambda _: 300,
        f"DCGM_FI_DEV_FB_FREE{{{OLD},{OF_TRAIN_0}}}": lambda _: 700,
        f"DCGM_FI_DEV_GPU_UTIL_RATIO{{{NEW},{OF_TRAIN_1}}}": lambda n: 0.8 if n % 20 == 0 else 0,
        # Of another cluster: a node and a namespace that we do not have.
        'DCGM_FI_DEV_GPU_UTIL_RATIO{UUID="GPU-y",hostname="n9",pod="p",namespace="other"}': (
            lambda _: 1.0
        ),
        f"DCGM_FI_DEV_FB_USED_BYTES{{{NEW},{OF_TRAIN_1}}}": lambda _: 600 * 2**20,
        f"DCGM_FI_DEV_FB_CAPACITY_BYTES{{{NEW},{OF_TRAIN_1}}}": lambda _: 1000 * 2**20,
        'container_cpu_usage_seconds_total{container="c",pod="train-0",namespace="vision"}': (
            lambda n: 0.3 * n
        ),
        'container_cpu_usage_seconds_total{container="c",pod="train-1",namespace="vision"}': (
            lambda n: 0.3 * n
        ),
    }
    lines = []
    for row, value in rows.items():
        lines.append(f"# TYPE {row.split('{')[0]} gauge")
        lines += [f"{row} {value(n)} {BEGUN.timestamp() + 30 * n:.0f}" for n in range(121)]
    return "\n".join([*lines, "# EOF\n"])


def attempt_of(number):
    attempt = SimpleNamespace(
        attempt_id=f"train-{number}", gpu_count=1, started_at=BEGUN, admitted_at=BEGUN
    )
    return SimpleNamespace(attempt=attempt, workload=make_workload(f"w{number}"))


def test_a_run_in_pods_without_work_is_idle_and_plans_read_the_load_of_nodes(tmp_path):
    backfill(tmp_path, quiet_hour())
    use = PodUse(lambda attempt_id: [pod(attempt_id)], lambda: ["n1"], lambda: ["vision"], 60.0)
    runs = [attempt_of(0), attempt_of(1)]
    with run_prometheus(tmp_path, []) as prometheus:
        while not prometheus.result("vector(1)"):
            pass
        use.set_policy(
            make_policy(telemetry={"prometheus_url": prometheus.url, "planning_window": "5m"})
        )

        async def watch():
            for minute in range(2, 58):
                await use.ask(BEGUN + timedelta(minutes=minute))
                for each in runs:
                    use.activity(each)

        anyio.run(watch)
    now = BEGUN + timedelta(minutes=57)
    quiet, busy = (
        idle_state(use.activity(each), RunUse(), None, IdlePolicy(), now) for each in runs
    )
    assert quiet.is_idle, quiet.text
    assert not busy.is_idle, busy.text
    assert {each.sample.gpu_id for each in use._use.devices} == {"GPU-old", "GPU-new"}
    allocations = [make_allocation(each.workload, {"n1": "0"}, admitted_at=BEGUN) for each in runs]
    found = use.measurements(runs, [], allocations, now)
    loads = {node: round(load.load_ratio, 2) for node, load in found.loads.items()}
    assert (loads["n1"], found.utilization["w0"]) == (0.3, 0.0)
    assert 0.6 <= loads["n2"] < 0.7
    assert 0 <= found.utilization["w1"] < 0.2
