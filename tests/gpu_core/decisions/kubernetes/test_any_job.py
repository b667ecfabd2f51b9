"""Whatever a run asks for: its manifests pass the published schemas and our own lint."""

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from gpu_core.decisions.kubernetes.lint import Severity, lint
from gpu_core.decisions.kubernetes.manifests.job import build_job
from gpu_core.decisions.kubernetes.manifests.launch import Launch, Wanted
from gpu_core.decisions.model.cluster import Placement
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy, Provisioner
from gpu_core.testing.builders.manifests import (
    TEMPLATE,
    container_of,
    make_kubernetes_policy,
    make_launch,
    on_nodes,
)
from tests.support.examples import examples
from tests.support.kubernetes_schemas import FIRST_AND_LAST, schema_errors

texts = st.text(min_size=1, max_size=80)
gpu_types = st.sampled_from(["t4", "a10g", "a100-40gb", "a100-80gb", "h100-80gb", "h200"])
capacity_types = st.sampled_from(["spot", "on-demand", "reserved"])
parts = st.sampled_from(
    [{}, {}, {"gpu_share_milli": 250}, {"mig_profile": "1g.10gb"}, {"mig_profile": "1g.10gb+me"}]
)


@st.composite
def places(draw: st.DrawFn, nodes: int, gpus: int) -> Placement | Wanted:
    """Nodes of the plan, or nodes that are to come."""
    if draw(st.booleans()):
        names = [f"n{number}" for number in range(nodes)]
        return on_nodes(*names, gpus=gpus, capacity_type=draw(capacity_types))
    return Wanted(
        gpu_types=tuple(draw(st.lists(gpu_types, max_size=3, unique=True))),
        capacity_types=tuple(draw(st.lists(capacity_types, max_size=2, unique=True))),
    )


@st.composite
def launches(draw: st.DrawFn) -> Launch:
    """Any attempt."""
    gpus, nodes = draw(st.sampled_from([0, 1, 1, 2, 8, 16])), draw(st.sampled_from([1, 1, 2, 3]))
    shape = {
        **draw(parts),
        "gpu_memory_gib": draw(st.sampled_from([None, 40])),
        "cpu_milli": draw(st.sampled_from([0, 1500])),
        "memory_mib": draw(st.sampled_from([0, 5000])),
        "node_labels": draw(st.sampled_from([(), (("disk", "nvme"),)])),
        "tolerations": draw(st.sampled_from([frozenset(), frozenset({"dedicated=ml:NoSchedule"})])),
        "same_label": draw(st.sampled_from([None, "rack"])),
    }
    variables = {
        "cpu_per_gpu": draw(st.sampled_from([None, 0.5, 7.25])),
        "shm_size": draw(st.sampled_from([None, "64Mi"])),
        "container_command": draw(st.sampled_from([None, "python train.py"])),
        "image": draw(st.sampled_from([None, "train:1"])),
        "volumes": draw(st.sampled_from([None, [{"claim": "data", "mount_path": "/data"}]])),
        "model_cache": draw(st.booleans()),
    }
    context = {"name": draw(texts), "team": draw(texts), "project": draw(st.none() | texts)}
    return make_launch(
        gpus,
        nodes=nodes,
        place=draw(places(nodes, gpus)),
        shape=shape,
        variables=variables,
        context=context,
        queue=draw(st.none() | texts),
        user=draw(st.none() | texts),
        pool=draw(texts),
        max_duration_s=draw(st.sampled_from([None, 1, 86_400])),
        is_flow=draw(st.booleans()),
    )


@st.composite
def policies(draw: st.DrawFn) -> KubernetesPolicy:
    """Any policy."""
    return make_kubernetes_policy(
        provisioner=draw(st.sampled_from([p.value for p in Provisioner])),
        version=draw(st.sampled_from(["1.20", "1.25", "1.34"])),
        mig_strategy=draw(st.sampled_from(["mixed", "single"])),
        run_as_user=draw(st.sampled_from([None, 1000])),
        priority_classes=draw(st.booleans()),
        model_cache=draw(st.sampled_from([None, {"claim": "models"}])),
        secrets=draw(st.sampled_from([{}, {"HF_TOKEN": {"name": "hf", "key": "token"}}])),
        kueue_queue=draw(st.sampled_from([None, None, "gpus"])),
    )


def built(template, launch, policy):
    """The manifests; what cannot be had is refused by its own name, and no example."""
    try:
        return build_job(template, launch, policy)
    except InvalidInput as refused:
        if refused.field not in ("gpu_type", "gpu_fraction", "container_command"):
            raise
        reject()


@settings(max_examples=examples(40))
@given(launches(), policies(), st.sampled_from(FIRST_AND_LAST))
def test_any_job_is_valid(launch, policy, version):
    manifests = built(TEMPLATE, launch, policy)
    assert len(manifests.jobs) in (1, launch.shape.nodes)
    for manifest in filter(None, (*manifests.jobs, manifests.service)):
        assert schema_errors(manifest, (version,)) == []
        errors = [f for f in lint(manifest, policy) if f.severity is Severity.ERROR]
        # Kueue on a cluster that is too old for it is the policy's mistake, and is reported.
        assert [f.code for f in errors if f.path != "spec.suspend"] == []


@settings(max_examples=examples(20))
@given(launches(), policies(), st.dictionaries(texts, texts, max_size=3))
def test_the_templates_own_stays(launch, policy, annotations):
    theirs = {
        **TEMPLATE,
        "metadata": {**TEMPLATE["metadata"], "annotations": annotations},
    }
    manifests = built(theirs, launch, policy)
    for job in manifests.jobs:
        assert annotations.items() <= job["metadata"]["annotations"].items()
        assert TEMPLATE["metadata"]["labels"].items() <= job["metadata"]["labels"].items()
        limits = container_of(job)["resources"]["limits"]
        assert limits.items() <= container_of(job)["resources"]["requests"].items()
