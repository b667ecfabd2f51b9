"""Labels and annotations that begin with `prefect-gpu.dev/` are the worker's own, everywhere."""

from collections.abc import Mapping

import pytest

from gpu_core.decisions.kubernetes.manifests import names
from gpu_core.decisions.kubernetes.manifests import node_preparation as preflight
from gpu_core.decisions.kubernetes.manifests.names import is_reserved
from gpu_core.decisions.kubernetes.operators import build_custom_job
from gpu_core.decisions.kubernetes.variables.variables import parse_pod_request
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.manifests import (
    build,
    make_kubernetes_policy,
    make_launch,
    template,
)

KEYS = sorted(
    {
        value
        for module in (names, preflight)
        for name, value in vars(module).items()
        if name.endswith(("_LABEL", "_ANNOTATION")) and value.startswith("prefect-gpu.dev/")
    }
)
FORGED = "forged-by-a-run"


def forged():
    """A template through which a run brought each of our names, in all places."""
    found = template()
    brought = dict.fromkeys([*KEYS, "prefect-gpu.dev/of-the-future"], FORGED)
    for owner in (found, found["spec"]["template"]):
        metadata = owner["metadata"]
        metadata["labels"] = {**metadata.get("labels", {}), **brought, "team.example/own": "kept"}
        metadata["annotations"] = {**brought, "team.example/own": "kept"}
    return found


def metadatas(value):
    """All metadata of objects and pod templates in this manifest."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "metadata":
                yield inner
            yield from metadatas(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from metadatas(inner)


LAUNCHES = [
    pytest.param(make_launch(), "1.34", id="a Job"),
    pytest.param(
        make_launch(1, nodes=2, variables={"container_command": "true"}), "1.34", id="a gang"
    ),
    pytest.param(
        make_launch(1, nodes=2, variables={"container_command": "true"}),
        "1.25",
        id="a gang of a Job for each node",
    ),
    *(
        pytest.param(
            make_launch(
                1, is_flow=False, variables={"framework": name, "container_command": "a.py"}
            ),
            "1.34",
            id=name,
        )
        for name in ("ray", "kubeflow", "spark")
    ),
]


@pytest.mark.parametrize(("launch", "version"), LAUNCHES)
def test_what_a_run_brings_under_our_names_is_on_no_object(launch, version):
    policy = make_kubernetes_policy(version=version)
    if launch.pod.framework in ("ray", "kubeflow", "spark"):
        manifests = [build_custom_job(forged(), launch, policy).manifest]
    else:
        built = build(launch, forged(), version=version)
        manifests = [*built.jobs, *([built.service] if built.service else [])]
    found = [*metadatas(manifests)]
    assert found
    assert FORGED not in str(manifests)
    assert any("team.example/own" in each.get("labels", {}) for each in found)
    assert any("team.example/own" in each.get("annotations", {}) for each in found)


def test_there_are_names_to_forge():
    assert {
        "prefect-gpu.dev/attempt-id",
        "prefect-gpu.dev/notice",
        "prefect-gpu.dev/node-task",
    } <= {*KEYS}


@pytest.mark.parametrize("name", ["labels", "annotations"])
@pytest.mark.parametrize(
    ("key", "want"),
    [
        pytest.param("prefect-gpu.dev/role", True, id="one of ours"),
        pytest.param("prefect-gpu.dev/anything", True, id="one that is not used yet"),
        pytest.param("Prefect-GPU.dev/role", True, id="in other letters"),
        pytest.param("prefect-gpu.development/role", False, id="a longer prefix"),
        pytest.param("example.com/prefect-gpu.dev", False, id="after another prefix"),
    ],
)
def test_a_run_that_brings_one_is_refused(name, key, want):
    variables = {name: {key: "x"}}
    assert is_reserved(key) is want
    if want:
        with pytest.raises(
            InvalidInput, match=(f"{name} uses a name that is reserved for the worker")
        ):
            parse_pod_request(variables, {})
    else:
        parse_pod_request(variables, {})
    # What runs already was started by a version that took it off without a word.
    parse_pod_request(variables)


def test_a_default_of_the_pool_is_taken_off_and_stops_no_run():
    labels = {"prefect-gpu.dev/team": "x"}
    parse_pod_request({"labels": labels}, {"labels": labels})


def test_a_job_counts_the_pods_of_no_other_job():
    found = template()
    found["spec"] |= {"manualSelector": True, "selector": {"matchLabels": {"app": "other"}}}
    (job,) = build(None, found).jobs
    assert not {"manualSelector", "selector"} & job["spec"].keys()
