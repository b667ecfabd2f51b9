"""The manifests grant the worker what it needs, and nothing else."""

from collections import Counter

from gpu_core.decisions.kubernetes.policy import KubernetesPolicy
from gpu_core.decisions.kubernetes.rights import RIGHTS, Option, rights_for
from tests.support.rbac import granted, objects_of_manifests

GRANTED = granted(objects_of_manifests(), "gpu-worker")


def test_the_manifests_grant_what_the_worker_needs_and_nothing_else():
    found = sorted((g.group, g.resource, g.verb, g.name, g.namespace is None) for g in GRANTED)
    want = sorted((r.group, r.resource, r.verb, r.name or "", r.is_cluster_wide) for r in RIGHTS)
    assert found == want


def test_no_right_is_granted_twice():
    assert [grant for grant, count in Counter(GRANTED).items() if count > 1] == []


def test_no_right_is_a_wildcard():
    assert [grant for grant in GRANTED if "*" in (grant.group, grant.resource, grant.verb)] == []


def test_a_policy_that_leaves_options_out_needs_no_rights_for_them():
    least = rights_for(KubernetesPolicy(), has_frameworks=False)
    assert {right.option for right in least} == {None}
    everything = rights_for(
        KubernetesPolicy.model_validate(
            {"provisioner": "karpenter", "priority_classes": True, "prepull": ["busybox:1"]}
        )
    )
    assert everything == RIGHTS
    assert {right.option for right in everything} == {None, *Option}
