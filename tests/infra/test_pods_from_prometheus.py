"""What the GPUs of pods did, asked of a real Prometheus that knows an hour of dcgm-exporter."""

from datetime import UTC, datetime, timedelta

import anyio
import pytest

from gpu_core.decisions.policy.telemetry import TelemetryPolicy
from gpu_core.worker.kubernetes.jobs.pod_telemetry import PodTelemetry
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
