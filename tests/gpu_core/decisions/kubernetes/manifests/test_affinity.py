"""On which nodes a pod may run."""

import pytest

from gpu_core.decisions.kubernetes.manifests.launch import Wanted
from gpu_core.decisions.model.cluster import Placement
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.manifests import build, make_launch, pod_of, template
from tests.support.kubernetes_schemas import schema_errors

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def node_affinity(launch, manifest=None, **policy):
    """The node affinity of the pod."""
    return pod_of(build(launch, manifest, **policy).jobs[0]).get("affinity", {})["nodeAffinity"]


def required(launch, manifest=None, **policy):
    """Each alternative as `key operator values` lines."""
    affinity = node_affinity(launch, manifest, **policy)
    return [
        [
            " ".join([e["key"], e["operator"], ",".join(e.get("values", ()))]).strip()
            for e in (*term.get("matchFields", ()), *term.get("matchExpressions", ()))
        ]
        for term in affinity[REQUIRED]["nodeSelectorTerms"]
    ]


def wanting(*gpu_types, capacity_types=(), gpus=1, **shape):
    """A launch for nodes that are to come."""
    place = Wanted(gpu_types=gpu_types, capacity_types=capacity_types)
    return make_launch(gpus, place=place, shape=shape)


def test_nodes_of_one_zone_are_asked_for_by_its_label():
    """In addition to what the run itself asks for."""
    zone = ("topology.kubernetes.io/zone", "z")
    place = Wanted(gpu_types=("t4",), node_labels=(zone,))
    launch = make_launch(1, place=place, shape={"node_labels": (("disk", "fast"), zone)})
    (term,) = required(launch, provisioner="karpenter")
    assert term == [
        "karpenter.k8s.aws/instance-gpu-name In t4",
        "disk In fast",
        "topology.kubernetes.io/zone In z",
    ]


def test_a_planned_node_is_required_by_its_name():
    """Not through `nodeName`, which would pass by the kube-scheduler's checks."""
    launch = make_launch()
    assert required(launch) == [["metadata.name In n1"]]
    assert "nodeName" not in pod_of(build(launch).jobs[0])
    assert PREFERRED not in node_affinity(launch)


@pytest.mark.parametrize(
    ("provisioner", "gpu_type", "capacity_type", "want"),
    [
        pytest.param(
            "karpenter",
            "t4",
            "spot",
            ["karpenter.k8s.aws/instance-gpu-name In t4", "karpenter.sh/capacity-type In spot"],
            id="Karpenter",
        ),
        pytest.param(
            "karpenter",
            "a100-80gb",
            "reserved",
            [
                "karpenter.k8s.aws/instance-gpu-name In a100",
                "karpenter.k8s.aws/instance-gpu-memory In 81920",
                "karpenter.sh/capacity-type In reserved",
            ],
            id="the A100s of Karpenter differ by memory alone",
        ),
        pytest.param(
            "eks-auto",
            "l4",
            "on-demand",
            [
                "eks.amazonaws.com/instance-gpu-name In l4",
                "karpenter.sh/capacity-type In on-demand",
            ],
            id="EKS Auto Mode",
        ),
        pytest.param(
            "eks-node-groups",
            "h200",
            "reserved",
            [
                "node.kubernetes.io/instance-type In p5e.48xlarge,p5en.48xlarge",
                "eks.amazonaws.com/capacityType In CAPACITY_BLOCK",
            ],
            id="EKS node groups, by machine type",
        ),
        pytest.param(
            "gke",
            "h100-80gb",
            "spot",
            [
                "cloud.google.com/gke-accelerator In nvidia-h100-80gb,nvidia-h100-mega-80gb",
                "cloud.google.com/gke-spot In true",
            ],
            id="GKE",
        ),
        pytest.param(
            "aks",
            "a100-80gb",
            "on-demand",
            [
                "node.kubernetes.io/instance-type In Standard_ND96amsr_A100_v4,"
                "Standard_NC24ads_A100_v4,Standard_NC48ads_A100_v4,Standard_NC96ads_A100_v4",
                "kubernetes.azure.com/scalesetpriority NotIn spot",
            ],
            id="AKS: only spot nodes have the label",
        ),
        pytest.param(
            "fixed",
            "l4",
            "spot",
            [
                "nvidia.com/gpu.product In NVIDIA-L4,NVIDIA-L4-SHARED",
                "prefect-gpu.dev/capacity-type In spot",
            ],
            id="nodes that are there, by GPU Feature Discovery",
        ),
        pytest.param(
            "fixed",
            "b200",
            "on-demand",
            [
                "nvidia.com/gpu.product In NVIDIA-B200,NVIDIA-B200-SHARED",
                "prefect-gpu.dev/capacity-type NotIn spot,reserved",
            ],
            id="nodes without a label are on-demand",
        ),
    ],
)
def test_nodes_that_are_to_come_are_selected_in_the_clouds_words(
    provisioner, gpu_type, capacity_type, want
):
    launch = wanting(gpu_type, capacity_types=(capacity_type,))
    assert required(launch, provisioner=provisioner) == [want]


def test_machines_that_are_too_small_are_not_named():
    (term,) = required(wanting("l4", gpus=8), provisioner="eks-node-groups")
    assert term == ["node.kubernetes.io/instance-type In g6.48xlarge"]


def test_what_is_wanted_most_comes_first_and_weighs_most():
    launch = wanting("h200", "h100-80gb", capacity_types=("spot", "on-demand"))
    alternatives = required(launch, provisioner="karpenter")
    assert [a[0] for a in alternatives] == [
        "karpenter.k8s.aws/instance-gpu-name In h200",
        "karpenter.k8s.aws/instance-gpu-name In h100",
    ]
    assert all("karpenter.sh/capacity-type In spot,on-demand" in a for a in alternatives)
    weights = {
        item["preference"]["matchExpressions"][0]["values"][0]: item["weight"]
        for item in node_affinity(launch, provisioner="karpenter")[PREFERRED]
    }
    assert weights == {"h200": 100, "spot": 10}


def test_memory_stands_for_the_types_that_have_it():
    alternatives = required(wanting(gpu_memory_gib=100), provisioner="karpenter")
    assert alternatives == [
        ["karpenter.k8s.aws/instance-gpu-name In h200"],
        ["karpenter.k8s.aws/instance-gpu-name In b200"],
    ]


def test_labels_of_the_policy_come_before_the_clouds():
    launch = wanting("gb10")
    labels = {"gb10": {"example.com/gpu": "gb10"}}
    assert required(launch, gpu_type_labels=labels) == [["example.com/gpu In gb10"]]


def test_a_type_that_cannot_be_selected_is_refused():
    with pytest.raises(InvalidInput, match=r"gpu_type cannot be selected on gke .*gpu_type_labels"):
        build(wanting("gb10"), provisioner="gke")


def test_anything_goes_where_nothing_is_wanted():
    pod = pod_of(build(wanting(), provisioner="karpenter").jobs[0])
    assert "affinity" not in pod


def test_the_templates_alternatives_hold_as_well():
    theirs = {
        "nodeAffinity": {
            REQUIRED: {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "rack", "operator": "In", "values": [rack]}]}
                    for rack in ("r1", "r2")
                ]
            }
        },
        "podAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": {}}]},
    }
    manifest = template(affinity=theirs)
    assert required(make_launch(), manifest) == [
        ["metadata.name In n1", "rack In r1"],
        ["metadata.name In n1", "rack In r2"],
    ]
    affinity = pod_of(build(make_launch(), manifest).jobs[0])["affinity"]
    assert affinity["podAffinity"] == theirs["podAffinity"]


def test_a_run_without_gpus_runs_anywhere():
    nowhere = Placement(gpu_type=None, capacity_type="on-demand", shares=())
    pod = pod_of(build(make_launch(0, place=nowhere), provisioner="karpenter").jobs[0])
    assert "affinity" not in pod


def test_labels_that_the_run_asks_for():
    launch = wanting("t4", node_labels=(("disk", "nvme"),))
    assert required(launch)[0][-1] == "disk In nvme"


def own_pods_kept_away(job):
    """The label and the value by which a Job's pod keeps off every node, with their domain."""
    rules = pod_of(job)["affinity"].get("podAntiAffinity", {}).get(REQUIRED, ())
    return [
        (rule["labelSelector"]["matchLabels"]["job-name"], rule["topologyKey"])
        for rule in rules
        if "job-name" in rule["labelSelector"]["matchLabels"]
    ]


@pytest.mark.parametrize("version", ["1.20", "1.25"])
@pytest.mark.parametrize("nodes", [1, 3])
def test_where_pods_are_replaced_too_early_a_job_has_one_at_a_time(version, nodes):
    """Also the Jobs of a gang, each for its own node, also with rules of the platform team."""
    theirs = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
    manifest = template(affinity={"podAntiAffinity": {REQUIRED: [theirs]}})
    launch = make_launch(8, nodes=nodes, variables={"container_command": "torchrun train.py"})
    jobs = build(launch, manifest, version=version).jobs
    assert len(jobs) == nodes
    for job in jobs:
        assert own_pods_kept_away(job) == [(job["metadata"]["name"], "kubernetes.io/os")]
        assert theirs in pod_of(job)["affinity"]["podAntiAffinity"][REQUIRED]
        assert schema_errors(job) == []


def test_where_a_replaced_pod_waits_for_its_forerunner_nothing_is_needed():
    (job,) = build(version="1.26").jobs
    assert own_pods_kept_away(job) == []
