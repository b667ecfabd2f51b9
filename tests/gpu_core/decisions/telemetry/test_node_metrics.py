"""What a node exporter exports: labels of the pod on each GPU, and nothing that is stale."""

from datetime import UTC, datetime, timedelta

import pytest

from gpu_core.decisions.telemetry.metric_names import SAMPLED
from gpu_core.decisions.telemetry.node_metrics import (
    LABELS,
    ExporterFacts,
    GpuFacts,
    GpuPod,
    node_metrics,
)
from gpu_core.decisions.telemetry.samples import GpuSample

NOW = datetime(2026, 11, 25, tzinfo=UTC)
GPUS = {"GPU-a": GpuFacts(0, "h100-80gb"), "GPU-b": GpuFacts(1, "h100-80gb")}
SAMPLES = (
    GpuSample(gpu_id="GPU-a", at=NOW, utilization_ratio=0.5),
    GpuSample(gpu_id="GPU-b", at=NOW, utilization_ratio=0.0),
    GpuSample(gpu_id="MIG-c", parent_gpu_id="GPU-b", at=NOW, sm_active_ratio=0.25),
)


def found(name, *pods, now=NOW, **facts):
    known = {
        "samples": SAMPLES,
        "sampled_at": NOW,
        "gpus": GPUS,
        "pods": pods,
        "node": "n1",
    } | facts
    families = node_metrics(ExporterFacts(**known), now)
    (family,) = [family for family in families if family.name == name]
    return {
        labels[0]: dict(zip(LABELS, labels, strict=True)) | {"value": value}
        for labels, value in family.samples.items()
    }


def pod(name, device_id, namespace="vision"):
    return GpuPod(namespace, name, "main", device_id)


UTILIZATION = "prefect_gpu_device_utilization_ratio"
HELD = "prefect_gpu_device_held"


def test_a_gpu_has_its_index_its_type_and_the_pod_on_it():
    assert found(UTILIZATION, pod("train-0", "GPU-a"))["GPU-a"] == {
        "gpu": "GPU-a",
        "parent_gpu": "",
        "index": "0",
        "gpu_type": "h100-80gb",
        "namespace": "vision",
        "pod": "train-0",
        "container": "main",
        "node": "n1",
        "value": 0.5,
    }


@pytest.mark.parametrize(
    ("device_id", "want"),
    [
        pytest.param("GPU-a", "train-0", id="a UUID"),
        pytest.param("0", "train-0", id="an index"),
        pytest.param("GPU-a::3", "train-0", id="a share"),
        pytest.param("GPU-unknown", "", id="no GPU of this node"),
    ],
)
def test_device_plugins_name_a_gpu_in_several_ways(device_id, want):
    assert found(UTILIZATION, pod("train-0", device_id))["GPU-a"]["pod"] == want


def test_a_gpu_that_several_pods_share_has_none_of_its_own_and_is_held():
    pods = (pod("a", "GPU-a::0"), pod("b", "GPU-a::1"))
    assert found(UTILIZATION, *pods)["GPU-a"]["pod"] == ""
    assert found(HELD, *pods)["GPU-a"]["value"] == 1.0


def test_a_pod_with_two_shares_of_a_gpu_is_alone_on_it():
    pods = (pod("a", "GPU-a::0"), pod("a", "GPU-a::1"))
    assert found(UTILIZATION, *pods)["GPU-a"]["pod"] == "a"


def test_a_pod_on_a_mig_instance_holds_a_part_of_its_gpu():
    held = found(HELD, pod("asr-0", "MIG-c"))
    assert {gpu: row["value"] for gpu, row in held.items()} == {
        "GPU-a": 0.0,
        "GPU-b": 1.0,
        "MIG-c": 1.0,
    }
    activity = found("prefect_gpu_device_sm_active_ratio", pod("asr-0", "MIG-c"))["MIG-c"]
    assert (activity["parent_gpu"], activity["index"], activity["pod"]) == ("GPU-b", "1", "asr-0")


def test_where_pods_are_unknown_no_gpu_is_said_to_be_free():
    assert found(HELD, pods=None) == {}
    assert found(UTILIZATION, pods=None)["GPU-a"]["pod"] == ""


@pytest.mark.parametrize(
    ("age_s", "want"),
    [pytest.param(60, 2, id="a minute old"), pytest.param(61, 0, id="the driver hangs")],
)
def test_what_is_over_a_minute_old_is_not_exported(age_s, want):
    assert len(found(UTILIZATION, now=NOW + timedelta(seconds=age_s))) == want


def test_a_hanging_driver_shows_by_the_moment_of_the_samples():
    families = node_metrics(ExporterFacts(sampled_at=NOW, node="n1"), NOW + timedelta(seconds=70))
    (sampled,) = [f for f in families if f.name == SAMPLED]
    assert (sampled.labels, sampled.samples) == (("node",), {("n1",): NOW.timestamp()})


def test_errors_are_counted_by_their_code():
    families = node_metrics(ExporterFacts(xids={("GPU-a", 31): 2}, node="n1"), NOW)
    (errors,) = [f for f in families if f.name == "prefect_gpu_device_xid_errors"]
    assert errors.samples == {("GPU-a", "31", "n1"): 2.0}
