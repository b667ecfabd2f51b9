"""What the policy may say about Kubernetes."""

import pytest

from gpu_core.decisions.kubernetes.manifests.priority_class import priority_classes
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.kubernetes_version import Capabilities, capabilities_of
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.testing.builders.manifests import (
    build,
    container_of,
    make_launch,
    pod_of,
    template,
    template_container,
)
from tests.support.kubernetes_schemas import FIRST_AND_LAST, schema_errors


@pytest.mark.parametrize(
    ("section", "want"),
    [
        pytest.param(
            {"provisioner": "karpentr"}, "policy: kubernetes.provisioner", id="a misspelled cloud"
        ),
        pytest.param(
            {"version": 1.34}, "kubernetes.version is not text", id="a version that YAML cut"
        ),
        pytest.param({"version": "new"}, "kubernetes.version is not a version", id="no version"),
        pytest.param(
            {"instance_metadata_url": "169.254.169.254"},
            "instance_metadata_url is no address",
            id="an address without http",
        ),
        pytest.param(
            {"pod_securty": "restricted"}, "Did you mean 'pod_security'", id="a misspelled key"
        ),
        pytest.param(
            {"termination_grace": "20s"},
            "kubernetes.termination_grace is too small",
            id="a grace in which Prefect cannot end a flow",
        ),
        pytest.param({"model_cache": {}}, "needs one place", id="a cache that is nowhere"),
        pytest.param(
            {"model_cache": {"claim": "c", "host_path": "/c"}, "pod_security": "template"},
            "needs one place",
            id="a cache that is in two places",
        ),
        pytest.param(
            {"model_cache": {"host_path": "/cache"}},
            "forbidden by Pod Security 'restricted'",
            id="a folder of the node under restricted",
        ),
        pytest.param(
            {"kueue_queue": "q", "version": "1.20"}, "needs Kubernetes 1.22", id="an old Kueue"
        ),
    ],
)
def test_what_is_wrong_is_said(section, want):
    with pytest.raises(InvalidInput) as caught:
        parse_policy({"version": 1, "kubernetes": section})
    assert want in str(caught.value)


@pytest.mark.parametrize(
    ("version", "want"),
    [
        pytest.param("1.34", Capabilities(), id="a new one can do everything"),
        pytest.param("v1.25.3-eks-1", Capabilities(pod_failure_policy=False), id="with a suffix"),
        pytest.param(
            "1.20",
            Capabilities(indexed_jobs=False, pod_failure_policy=False, suspended_jobs=False),
            id="an old one",
        ),
    ],
)
def test_capabilities(version, want):
    assert capabilities_of(version) == want


def test_priority_classes_preempt_no_pod():
    classes = priority_classes({"critical": 1_000_000, "Best Effort": 0})
    assert [c["metadata"]["name"] for c in classes] == [
        "prefect-gpu-critical",
        "prefect-gpu-best-effort-e6ae1aa5",
    ]
    assert {c["preemptionPolicy"] for c in classes} == {"Never"}
    assert [schema_errors(c, FIRST_AND_LAST) for c in classes] == [[], []]


def test_pods_name_the_class_whose_points_they_have():
    """A queue without points of its own, such as Prefect's `default`, has no class either."""
    launch = make_launch(queue="default", priority_queue="medium")
    (job,) = build(launch, priority_classes=True).jobs
    assert pod_of(job)["priorityClassName"] == "prefect-gpu-medium"
    assert "priorityClassName" not in pod_of(build(launch).jobs[0])
    without_points = build(make_launch(priority_queue=None), priority_classes=True)
    assert "priorityClassName" not in pod_of(without_points.jobs[0])


def test_the_template_may_ask_for_more_than_restricted():
    capabilities = {"capabilities": {"add": ["IPC_LOCK"]}}
    context = container_of(
        build(manifest=template_container(securityContext=capabilities)).jobs[0]
    )["securityContext"]
    assert context["capabilities"] == {"add": ["IPC_LOCK"], "drop": ["ALL"]}
    root = pod_of(build(manifest=template(securityContext={"runAsNonRoot": False})).jobs[0])
    assert root["securityContext"] == {
        "runAsNonRoot": False,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_the_template_alone_may_say_what_is_secure():
    job = build(pod_security="template").jobs[0]
    assert "securityContext" not in pod_of(job)
    assert "securityContext" not in container_of(job)
    assert "HOME" not in [item["name"] for item in container_of(job)["env"]]


def test_the_images_own_user_has_its_own_home():
    job = build(run_as_user=None).jobs[0]
    assert pod_of(job)["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert "HOME" not in [item["name"] for item in container_of(job)["env"]]


@pytest.mark.parametrize(
    ("cache", "want"),
    [
        pytest.param(
            {"claim": "models", "read_only": True},
            {"persistentVolumeClaim": {"claimName": "models"}},
            id="a claim",
        ),
        pytest.param(
            {"host_path": "/mnt/models"},
            {"hostPath": {"path": "/mnt/models", "type": "DirectoryOrCreate"}},
            id="a folder of the node",
        ),
    ],
)
def test_model_cache(cache, want):
    job = build(model_cache=cache, pod_security="template").jobs[0]
    assert {"name": "prefect-gpu-models", **want} in pod_of(job)["volumes"]
    mounts = {m["name"]: m for m in container_of(job)["volumeMounts"]}
    assert mounts["prefect-gpu-models"]["mountPath"] == "/models"
    assert mounts["prefect-gpu-models"].get("readOnly", False) == cache.get("read_only", False)
    without = build(make_launch(variables={"model_cache": False}), model_cache=cache)
    assert "prefect-gpu-models" not in str(without.jobs[0])
