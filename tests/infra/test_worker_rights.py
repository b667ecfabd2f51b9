"""The table of the rights that the worker needs."""

from gpu_core.decisions.kubernetes.rbac.rights import RIGHTS, OptionalPart, rights_for
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy


def test_a_policy_that_leaves_options_out_needs_no_rights_for_them():
    least = rights_for(KubernetesPolicy(), has_frameworks=False)
    assert {right.option for right in least} == {None}
    with_prometheus = set(rights_for(KubernetesPolicy(), has_prometheus=True))
    (more,) = with_prometheus - set(rights_for(KubernetesPolicy()))
    assert str(more) == "patch nodes"
    everything = rights_for(
        KubernetesPolicy.model_validate(
            {"provisioner": "karpenter", "priority_classes": True, "prepull": ["busybox:1"]}
        )
    )
    assert everything == RIGHTS
    assert {right.option for right in everything} == {None, *OptionalPart}
