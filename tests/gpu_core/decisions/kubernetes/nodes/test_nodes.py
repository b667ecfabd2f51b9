"""From Node objects to what the scheduler plans with."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.kubernetes.nodes.nodes import node_facts
from gpu_core.decisions.model.cluster import Machine
from gpu_core.testing.builders.manifests import make_kubernetes_policy
from gpu_core.testing.builders.node_objects import (
    AKS_SPOT,
    EKS_AUTO,
    EKS_NODE_GROUP,
    GFD_A100,
    GKE_SPOT,
    KARPENTER_SPOT,
    READY,
    make_node_object,
    make_pod_object,
)

MIG = GFD_A100 | {"nvidia.com/gpu.count": "2"}

REBALANCE = "aws-node-termination-handler/rebalance-recommendation"
DRIVER = "nvidia.com/gpu-driver-upgrade-state"


def facts(node, *pods, held=(), **policy):
    """What is known of the node to the pool `gpus`."""
    return node_facts(
        node, pods, make_kubernetes_policy(**policy), pool="gpus", held_gpu_ids=frozenset(held)
    )


def test_the_machine_below_a_node_is_all_of_it() -> None:
    node = make_node_object(GFD_A100, providerID="aws:///us-east-1a/i-0abc")
    node["metadata"] |= {"uid": "uid-1", "creationTimestamp": "2026-03-04T12:00:00Z"}
    found = facts(node, make_pod_object({"nvidia.com/gpu": "3"})).node
    assert len(found.gpu_ids) == 5
    assert found.machine == Machine(
        gpus=8,
        cpu_milli=96_000,
        memory_mib=1000 * 1024,
        incarnation="uid-1",
        instance_id="aws:///us-east-1a/i-0abc",
        created_at=datetime(2026, 3, 4, 12, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("labels", "want_type", "want_memory_gib", "want_capacity"),
    [
        pytest.param(GFD_A100, "a100-80gb", 80, "on-demand", id="GPU Feature Discovery"),
        pytest.param(KARPENTER_SPOT, "a10g", 24, "spot", id="Karpenter"),
        pytest.param(EKS_AUTO, "l4", 24, "on-demand", id="EKS Auto Mode"),
        pytest.param(EKS_NODE_GROUP, "a100-40gb", 40, "spot", id="EKS node group, by machine"),
        pytest.param(GKE_SPOT, "t4", 16, "spot", id="GKE"),
        pytest.param(AKS_SPOT, "a100-80gb", 80, "spot", id="AKS, by machine"),
        pytest.param(
            {"eks.amazonaws.com/capacityType": "CAPACITY_BLOCK", **KARPENTER_SPOT}
            | {"karpenter.sh/capacity-type": "reserved"},
            "a10g",
            24,
            "reserved",
            id="a reservation",
        ),
        pytest.param(
            KARPENTER_SPOT
            | {"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.memory": "23034"},
            "l4",
            24,
            "spot",
            id="the driver comes before the provisioner",
        ),
        pytest.param(
            {"nvidia.com/gpu.product": "NVIDIA-L4-SHARED", "nvidia.com/gpu.memory": "23034"},
            "l4",
            24,
            "on-demand",
            id="a shared GPU is of the same type",
        ),
        pytest.param(
            {
                "nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090",
                "nvidia.com/gpu.memory": "24564",
            },
            "geforce-rtx-4090",
            24,
            "on-demand",
            id="a product that is not listed",
        ),
        pytest.param(
            {"cloud.google.com/gke-accelerator": "nvidia-gb200"},
            "gb200",
            None,
            "on-demand",
            id="an accelerator that is not listed",
        ),
        pytest.param({}, "unknown", None, "on-demand", id="GPUs without a label"),
        pytest.param(
            {"prefect-gpu.dev/capacity-type": "spot"}, "unknown", None, "spot", id="our own label"
        ),
        pytest.param(
            {"cloud.google.com/gke-preemptible": "true"}, "unknown", None, "spot", id="the old GKE"
        ),
    ],
)  # fmt: skip
def test_gpu_type_memory_and_capacity_type(labels, want_type, want_memory_gib, want_capacity):
    node = facts(make_node_object(labels)).node
    assert (node.gpu_type, node.gpu_memory_gib) == (want_type, want_memory_gib)
    assert node.capacity_type == want_capacity


def test_labels_of_the_platform_team_come_first():
    own = {"a100-special": {"team": "vision"}}
    node = make_node_object(GFD_A100 | {"team": "vision"})
    assert facts(node, gpu_type_labels=own).node.gpu_type == "a100-special"
    assert facts(make_node_object(), gpu_type_labels=own).node.gpu_type == "a100-80gb"


def test_what_a_healthy_node_offers():
    found = facts(make_node_object(KARPENTER_SPOT, gpus=1))
    assert found.node.gpu_ids == ("0",)
    assert (found.node.cpu_milli, found.node.memory_mib) == (95_500, 1000 * 1024)
    assert (found.zone, found.instance_type) == ("us-west-2a", "g5.xlarge")
    assert (found.blocked_by, found.interruption, found.node.taints) == ((), None, frozenset())
    assert not found.node.unhealthy_gpu_ids
    assert found.node.labels == KARPENTER_SPOT


def test_a_node_without_gpus_is_none_of_ours():
    assert facts(make_node_object({}, gpus=0)) is None


def test_a_node_that_has_not_yet_found_its_gpus_waits():
    found = facts(make_node_object(KARPENTER_SPOT, gpus=0))
    assert found.node.gpu_ids == ()
    assert found.blocked_by == ("its device plugin has not registered any GPUs yet",)


@pytest.mark.parametrize(
    ("node", "want"),
    [
        pytest.param(make_node_object(unschedulable=True), "it is cordoned", id="cordoned"),
        pytest.param(
            make_node_object(conditions=({**READY, "status": "Unknown", "reason": "Lost"},)),
            "it is not ready (Lost)",
            id="silent",
        ),
        pytest.param(make_node_object(conditions=()), "it is not ready", id="not yet there"),
        pytest.param(
            make_node_object(
                taints=({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"},)
            ),
            "it has the taint karpenter.sh/disrupted",
            id="about to go",
        ),
        pytest.param(
            make_node_object(taints=({"key": REBALANCE, "effect": "NoSchedule"},)),
            f"it has the taint {REBALANCE}",
            id="likely to be interrupted",
        ),
        pytest.param(
            make_node_object(
                taints=({"key": "nvidia.com/gpu-driver-upgrade", "effect": "NoSchedule"},)
            ),
            "it has the taint nvidia.com/gpu-driver-upgrade",
            id="a driver that is upgraded, by its taint",
        ),
        pytest.param(
            make_node_object(labels={**GFD_A100, DRIVER: "pod-restart-required"}),
            "its GPU driver is being upgraded (pod-restart-required)",
            id="a driver that is upgraded, by its label",
        ),
        pytest.param(
            make_node_object(
                taints=({"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"},)
            ),
            "it has the taint node.kubernetes.io/disk-pressure",
            id="out of disk",
        ),
        pytest.param(
            make_node_object(
                conditions=(
                    READY,
                    {
                        "type": "AcceleratedHardwareReady",
                        "status": "False",
                        "reason": "NvidiaXID79Error",
                    },
                )
            ),
            "its GPUs are unhealthy: AcceleratedHardwareReady is False (NvidiaXID79Error)",
            id="broken GPUs",
        ),
    ],
)  # fmt: skip
def test_a_blocked_node_keeps_its_gpus_and_gets_no_new_runs(node, want):
    found = facts(node)
    assert found.blocked_by == (want,)
    assert len(found.node.gpu_ids) == 8
    assert found.node.unhealthy_gpu_ids == set(found.node.gpu_ids)


def test_a_warning_differs_from_a_cordon():
    taint = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}
    assert facts(make_node_object(taints=(taint,))).interruption == taint["key"]
    assert facts(make_node_object(unschedulable=True)).interruption is None


@pytest.mark.parametrize("state", ["", "upgrade-required", "upgrade-done"])
def test_a_driver_that_waits_for_its_upgrade_or_has_it_is_used(state):
    assert facts(make_node_object(labels={**GFD_A100, DRIVER: state})).blocked_by == ()


def test_a_recommendation_to_rebalance_ends_nothing_that_runs():
    assert facts(make_node_object(taints=({"key": REBALANCE},))).interruption is None


def test_only_unusual_taints_are_the_runs_business():
    taints = (
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "sku", "value": "gpu", "effect": "NoSchedule"},
        {"key": "sku", "value": "cpu", "effect": "NoSchedule"},
        {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"},
        {"key": "dedicated", "value": "ml", "effect": "NoSchedule"},
        {"key": "drain", "effect": "NoExecute"},
        {"key": "soft", "effect": "PreferNoSchedule"},
    )
    found = facts(make_node_object(taints=taints))
    assert found.node.taints == {"dedicated=ml:NoSchedule", "drain:NoExecute", "sku=cpu:NoSchedule"}
    assert found.blocked_by == ()


def test_gpus_that_the_device_plugin_withdrew_are_unhealthy():
    node = facts(make_node_object(healthy=6)).node
    assert len(node.gpu_ids) == 8
    assert node.unhealthy_gpu_ids == {"6", "7"}


@pytest.mark.parametrize(
    ("healthy", "want"),
    [
        pytest.param(8, 0, id="all are offered"),
        pytest.param(6, 2, id="two are withdrawn"),
        pytest.param(0, 0, id="its device plugin is away"),
    ],
)
def test_gpus_that_the_device_plugin_withdrew_are_faults_of_their_machine(healthy, want):
    machine = facts(make_node_object(healthy=healthy)).node.machine
    assert (machine.gpus, machine.faulty_gpus) == (8, want)


def test_those_that_our_attempts_hold_stay():
    others = make_pod_object({"nvidia.com/gpu": "2"})
    found = facts(make_node_object(healthy=7), others, held=("7", "6"))
    assert found.node.gpu_ids == ("0", "1", "2", "3", "6", "7")
    assert found.node.unhealthy_gpu_ids == {"3"}
    assert found.foreign_gpus == 2


def test_other_peoples_pods_count_and_ours_do_not():
    pods = (
        make_pod_object({"nvidia.com/gpu": "1", "cpu": "500m", "memory": "10Gi"}),
        make_pod_object({"nvidia.com/gpu": "1"}, pool="another"),
        make_pod_object({"nvidia.com/gpu": "4", "cpu": "40"}, pool="gpus"),
        make_pod_object({"nvidia.com/gpu": "4", "cpu": "40"}, phase="Succeeded"),
    )
    found = facts(make_node_object(), *pods)
    assert found.foreign_gpus == 2
    assert found.node.gpu_ids == tuple("012345")
    assert (found.node.cpu_milli, found.node.memory_mib) == (95_000, 990 * 1024)


@pytest.mark.parametrize(
    ("node", "policy", "want_gpus", "want_shareable"),
    [
        pytest.param(
            make_node_object(
                GFD_A100 | {"nvidia.com/gpu.replicas": "4"}, resource="nvidia.com/gpu.shared"
            ),
            {},
            2,
            True,
            id="renamed replicas",
        ),
        pytest.param(
            make_node_object({}, gpus=8, resource="nvidia.com/gpu.shared"),
            {"shares_per_gpu": 8},
            1,
            True,
            id="renamed replicas without a label",
        ),
        pytest.param(
            make_node_object(
                {
                    "nvidia.com/gpu.product": "NVIDIA-A10G-SHARED",
                    "nvidia.com/gpu.memory": "23028",
                    "nvidia.com/gpu.replicas": "4",
                },
                gpus=4,
            ),
            {"shared_gpu_resource": "nvidia.com/gpu"},
            1,
            True,
            id="replicas under the name of GPUs",
        ),
        pytest.param(
            make_node_object(),
            {"shared_gpu_resource": "nvidia.com/gpu"},
            8,
            False,
            id="whole GPUs where others are shared",
        ),
    ],
)  # fmt: skip
def test_shared_gpus(node, policy, want_gpus, want_shareable):
    found = facts(node, **policy).node
    assert (len(found.gpu_ids), found.is_shareable) == (want_gpus, want_shareable)
    assert found.has_whole_gpus is not want_shareable


def test_mig_instances_by_profile():
    node = make_node_object(MIG, gpus=6, resource="nvidia.com/mig-1g.10gb.me")
    for kind in ("capacity", "allocatable"):
        node["status"][kind]["nvidia.com/mig-3g.40gb"] = "2"
    found = facts(node, make_pod_object({"nvidia.com/mig-3g.40gb": "1"}))
    assert found.node.mig_instances == {"1g.10gb+me": 6, "3g.40gb": 1}
    assert (found.node.is_mig, found.node.gpu_ids) == (True, ("0", "1"))
    assert found.node.gpu_type == "a100-80gb"


def test_instances_that_are_no_more_leave_whole_gpus():
    """A resource that the device plugin offers no more stays listed with 0."""
    node = make_node_object()
    for kind in ("capacity", "allocatable"):
        node["status"][kind]["nvidia.com/mig-1g.10gb"] = "0"
    found = facts(node)
    assert (found.node.mig_instances, found.node.is_mig) == (None, False)
    assert len(found.node.gpu_ids) == 8


def test_mig_instances_under_the_name_of_gpus():
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
        "nvidia.com/gpu.memory": "9728",
        "nvidia.com/gpu.count": "14",
    }
    pod = make_pod_object({"nvidia.com/gpu": "3"})
    found = facts(make_node_object(labels, gpus=14), pod, mig_strategy="single")
    assert found.node.mig_instances == {"1g.10gb": 11}
    assert (found.node.is_mig, found.node.gpu_type) == (True, "a100-80gb")
    assert found.node.gpu_ids == ("0", "1")
    assert found.node.gpu_memory_gib == 80
    assert (found.unusable, found.node.unhealthy_gpu_ids) == ((), frozenset())


GKE_A100 = {"cloud.google.com/gke-accelerator": "nvidia-tesla-a100"}
GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"
UNRENAMED = {"shared_gpu_resource": "nvidia.com/gpu"}


@pytest.mark.parametrize("strategy", ["time-sharing", "mps"])
def test_gke_shares_gpus_under_their_plain_name(strategy):
    sharing = {"cloud.google.com/gke-gpu-sharing-strategy": strategy, GKE_CLIENTS: "4"}
    node = make_node_object(GKE_A100 | sharing, gpus=8)
    found = facts(node, make_pod_object({"nvidia.com/gpu": "1"}), **UNRENAMED)
    assert (found.node.gpu_ids, found.foreign_gpus) == (("0",), 1)
    assert (found.node.is_shareable, found.node.has_whole_gpus) == (True, False)
    assert (found.node.gpu_type, found.blocked_by) == ("a100-40gb", ())


@pytest.mark.parametrize(
    ("profile", "instances", "want_gpus"),
    [
        pytest.param("1g.5gb", 14, 2, id="seven on each"),
        pytest.param("2g.10gb", 3, 1, id="three on each"),
        pytest.param("3g.20gb", 16, 8, id="two on each"),
        pytest.param("9g.99gb", 8, 10, id="an unknown profile"),
    ],
)
def test_gke_offers_mig_instances_as_gpus(profile, instances, want_gpus):
    node = make_node_object(GKE_A100 | {GKE_PARTITION: profile}, gpus=instances)
    found = facts(node, make_pod_object({"nvidia.com/gpu": "1"}), mig_strategy="single")
    assert found.node.mig_instances == {profile: instances - 1}
    assert (found.node.is_mig, len(found.node.gpu_ids)) == (True, want_gpus)
    assert (found.node.gpu_type, found.blocked_by) == ("a100-40gb", ())


MIXED = make_node_object(MIG, gpus=6, resource="nvidia.com/mig-1g.10gb")


@pytest.mark.parametrize(
    ("node", "policy", "want"),
    [
        pytest.param(make_node_object(GKE_A100 | {GKE_CLIENTS: "2"}), {}, None, id="defaults"),
        pytest.param(
            make_node_object(GKE_A100 | {GKE_CLIENTS: "4"}),
            {"shared_gpu_resource": "example.com/share"},
            "its shared GPUs are named nvidia.com/gpu, but the policy's "
            "kubernetes.shared_gpu_resource is example.com/share",
            id="replicas under another name",
        ),
        pytest.param(
            make_node_object(GKE_A100 | {GKE_CLIENTS: "2"}),
            UNRENAMED | {"shares_per_gpu": 4},
            "each of its GPUs has 2 replicas, but the policy's kubernetes.shares_per_gpu is 4",
            id="another number of replicas",
        ),
        pytest.param(
            make_node_object(GFD_A100 | {"nvidia.com/gpu.replicas": "1"}),
            {"node_pools": [{"match_labels": {}, "shares_per_gpu": 4}]},
            "its GPUs are not shared, but the policy's kubernetes.node_pools.0.shares_per_gpu is 4",
            id="whole GPUs in a pool that is to share them",
        ),
        pytest.param(
            make_node_object(GKE_A100 | {GKE_PARTITION: "1g.5gb"}, gpus=7),
            {"mig_strategy": "mixed"},
            "its MIG strategy is 'single', but the policy's kubernetes.mig_strategy is 'mixed'",
            id="instances under the name of GPUs",
        ),
        pytest.param(
            MIXED,
            {"mig_strategy": "single"},
            "its MIG strategy is 'mixed', but the policy's kubernetes.mig_strategy is 'single'",
            id="instances under names of their own",
        ),
    ],
)
def test_what_a_node_says_counts_and_the_policys_contradiction_is_reported(node, policy, want):
    pools = policy.get("node_pools", ())
    if pools:
        (label,) = [*node["metadata"]["labels"].items()][:1]
        policy = {"node_pools": [pools[0] | {"match_labels": dict([label])}]}
    found = facts(node, **policy)
    assert found.contradictions == (() if want is None else (want,))
    assert (found.unusable, found.node.unhealthy_gpu_ids) == ((), frozenset())


@pytest.mark.parametrize(
    ("node", "policy", "want"),
    [
        pytest.param(
            make_node_object(GKE_A100 | {GKE_PARTITION: "1g.5gb", GKE_CLIENTS: "2"}, gpus=14),
            {"mig_strategy": "single"},
            "its MIG instances are shared and cannot be requested by runs",
            id="instances that GKE shares",
        ),
        pytest.param(
            make_node_object(MIG, gpus=12, resource="nvidia.com/mig-1g.10gb.shared"),
            {},
            "its MIG instances are shared and cannot be requested by runs",
            id="instances that are shared under names of their own",
        ),
    ],
)  # fmt: skip
def test_gpus_that_no_run_could_ask_for_are_not_used(node, policy, want):
    found = facts(node, **policy)
    assert found.unusable == found.blocked_by == (want,)
    assert found.node.unhealthy_gpu_ids == set(found.node.gpu_ids) != set()


@given(
    st.integers(0, 16),
    st.integers(0, 16),
    st.lists(st.integers(0, 4), max_size=6),
    st.sets(st.integers(0, 15).map(str)),
)
def test_no_gpu_is_counted_twice(gpus, healthy, foreign, held):
    node = make_node_object(gpus=gpus, healthy=min(gpus, healthy))
    pods = [make_pod_object({"nvidia.com/gpu": str(n)}) for n in foreign]
    found = facts(node, *pods, held=held)
    mine = {gpu_id for gpu_id in held if int(gpu_id) < gpus}
    assert mine <= set(found.node.gpu_ids)
    assert found.node.unhealthy_gpu_ids <= set(found.node.gpu_ids)
    if gpus:
        usable = set(found.node.gpu_ids) - found.node.unhealthy_gpu_ids
        assert len(usable) == max(len(mine), min(gpus, healthy) - sum(foreign))
