"""The Helm chart: the worker has the rights that it needs, and no others."""

from collections import Counter

import pytest

from gpu_core.decisions.kubernetes.rbac.rights import rights_for
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from tests.support.helm import NAMESPACE, RELEASE, of_kind, render
from tests.support.rbac import granted

LEASE = "gpu-pool-gpu"
FRAMEWORKS = {
    "ray": ("ray.io", "rayjobs"),
    "kubeflow": ("trainer.kubeflow.org", "trainjobs"),
    "spark": ("sparkoperator.k8s.io", "sparkapplications"),
}
TABLE = [
    pytest.param({}, (), ["prefect-gpu-runs"], id="the least"),
    *(pytest.param({}, (name,), ["prefect-gpu-runs"], id=name) for name in FRAMEWORKS),
    pytest.param({"prepull": ["a:1"]}, (), ["prefect-gpu-runs"], id="tests of nodes"),
    pytest.param({"provisioner": "karpenter"}, (), ["prefect-gpu-runs"], id="Karpenter"),
    pytest.param({"priority_classes": True}, (), ["prefect-gpu-runs"], id="PriorityClasses"),
    pytest.param({}, (), ["vision", "speech"], id="two namespaces of runs"),
    pytest.param(
        {"prepull": ["a:1"], "provisioner": "karpenter", "priority_classes": True},
        tuple(FRAMEWORKS), ["vision", "speech"], id="all",
    ),
]  # fmt: skip


def grants(policy, frameworks, namespaces):
    """What the worker's account may do, with the values for this."""
    values = {
        "policy": {"version": 1, "kubernetes": policy},
        "frameworks": dict.fromkeys(frameworks, True),
        "nodeAnnotations": {"enabled": "prepull" in policy},
        "runs": {"namespaces": [{"name": name} for name in namespaces]},
    }
    return granted(render(values), f"{RELEASE}-prefect-gpu-worker")


def wanted(policy, frameworks, namespaces):
    """The same by the worker's own table."""
    others = {FRAMEWORKS[name] for name in FRAMEWORKS.keys() - set(frameworks)}
    for right in rights_for(KubernetesPolicy.model_validate(policy)):
        if (right.group, right.resource) in others:
            continue
        name = LEASE if right.resource == "leases" else right.name or ""
        places = [None] if right.is_cluster_wide else namespaces
        for place in [NAMESPACE] if right.is_of_worker else places:
            yield right.group, right.resource, right.verb, name, place


@pytest.mark.parametrize(("policy", "frameworks", "namespaces"), TABLE)
def test_the_worker_has_the_rights_that_it_needs_and_no_others(policy, frameworks, namespaces):
    found = {
        (grant.group, grant.resource, grant.verb, grant.name, grant.namespace)
        for grant in grants(policy, frameworks, namespaces)
    }
    assert found == set(wanted(policy, frameworks, namespaces))


@pytest.mark.parametrize(("policy", "frameworks", "namespaces"), TABLE)
def test_no_right_is_granted_twice_or_by_a_wildcard(policy, frameworks, namespaces):
    found = grants(policy, frameworks, namespaces)
    assert [grant for grant, count in Counter(found).items() if count > 1] == []
    assert [g for g in found if "*" in g.group + g.resource + g.verb + g.name] == []


def test_every_role_is_bound_to_the_worker_alone():
    objects = render({"runs": {"namespaces": [{"name": "vision"}, {"name": "speech"}]}})
    for kind in ("ClusterRole", "Role"):
        roles = {
            (found["metadata"].get("namespace"), found["metadata"]["name"])
            for found in of_kind(objects, kind)
        }
        bound = {
            (found["metadata"].get("namespace"), found["roleRef"]["name"])
            for found in of_kind(objects, f"{kind}Binding")
        }
        assert roles == bound
    (deployment,) = of_kind(objects, "Deployment")
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    bindings = of_kind(objects, "ClusterRoleBinding") + of_kind(objects, "RoleBinding")
    assert {
        (subject["kind"], subject["namespace"], subject["name"])
        for binding in bindings
        for subject in binding["subjects"]
    } == {("ServiceAccount", NAMESPACE, account)}


def test_runs_have_an_account_of_their_own_without_rights_and_without_a_token():
    objects = render()
    accounts = {
        found["metadata"]["namespace"]: found for found in of_kind(objects, "ServiceAccount")
    }
    assert set(accounts) == {NAMESPACE, "prefect-gpu-runs"}
    assert accounts["prefect-gpu-runs"]["automountServiceAccountToken"] is False
