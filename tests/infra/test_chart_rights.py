"""The Helm chart: the worker has the rights of this table, and no others."""

import pytest

from tests.support.helm import NAMESPACE, of_kind, render

CLUSTER = {
    ("", "nodes", "list"), ("", "nodes", "watch"),
    ("", "pods", "list"), ("", "pods", "watch"),
    ("batch", "jobs", "list"), ("batch", "jobs", "watch"),
    ("", "namespaces/kube-system", "get"),
}  # fmt: skip
RUNS = {
    ("batch", "jobs", "get"), ("batch", "jobs", "create"), ("batch", "jobs", "delete"),
    ("", "pods", "patch"), ("", "pods", "delete"),
    ("", "pods/log", "get"),
    ("", "events", "list"),
    ("", "services", "get"), ("", "services", "create"),
}  # fmt: skip
OWN = {
    ("coordination.k8s.io", "leases/gpu-pool-gpu", "get"),
    ("coordination.k8s.io", "leases/gpu-pool-gpu", "update"),
    ("", "pods", "get"),
}


def operated(group, resource):
    """The rights for one framework: of the cluster, and in a namespace of runs."""
    return (
        {(group, resource, verb) for verb in ("list", "watch")},
        {(group, resource, verb) for verb in ("get", "create", "delete")},
    )


def rights(role):
    """Each right of a role: group, resource (with the name that it is limited to), verb."""
    return {
        (group, "/".join([resource, *names]), verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for names in ([[name] for name in rule.get("resourceNames", ())] or [[]])
        for verb in rule["verbs"]
    }


def all_rights(objects):
    """By place; `None` is the cluster."""
    roles = of_kind(objects, "ClusterRole") + of_kind(objects, "Role")
    return {role["metadata"].get("namespace"): rights(role) for role in roles}


RAY_CLUSTER, RAY_RUNS = operated("ray.io", "rayjobs")
TRAIN_CLUSTER, TRAIN_RUNS = operated("trainer.kubeflow.org", "trainjobs")
SPARK_CLUSTER, SPARK_RUNS = operated("sparkoperator.k8s.io", "sparkapplications")
KARPENTER = {"version": 1, "kubernetes": {"provisioner": "karpenter"}}
CLASSES = {"version": 1, "kubernetes": {"priority_classes": True}}
TABLE = [
    pytest.param({}, set(), set(), id="the least"),
    pytest.param({"frameworks": {"ray": True}}, RAY_CLUSTER, RAY_RUNS, id="Ray"),
    pytest.param({"frameworks": {"kubeflow": True}}, TRAIN_CLUSTER, TRAIN_RUNS, id="Kubeflow"),
    pytest.param({"frameworks": {"spark": True}}, SPARK_CLUSTER, SPARK_RUNS, id="Spark"),
    pytest.param(
        {"nodeAnnotations": {"enabled": True}},
        {("", "nodes", "patch")}, {("", "pods", "create")}, id="tests of nodes",
    ),
    pytest.param(
        {"policy": KARPENTER}, {("karpenter.sh", "nodepools", "list")}, set(), id="Karpenter"
    ),
    pytest.param(
        {"policy": CLASSES}, {("scheduling.k8s.io", "priorityclasses", "list")}, set(),
        id="PriorityClasses",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("values", "more_of_cluster", "more_of_runs"), TABLE)
def test_the_worker_has_these_rights_and_no_others(values, more_of_cluster, more_of_runs):
    assert all_rights(render(values)) == {
        None: CLUSTER | more_of_cluster,
        NAMESPACE: OWN,
        "prefect-gpu-runs": RUNS | more_of_runs,
    }


def test_it_has_the_same_rights_in_each_namespace_of_runs():
    values = {"runs": {"namespaces": [{"name": "vision"}, {"name": "speech"}]}}
    assert all_rights(render(values)) == {
        None: CLUSTER, NAMESPACE: OWN, "vision": RUNS, "speech": RUNS
    }  # fmt: skip


@pytest.mark.parametrize("values", [case.values[0] for case in TABLE])
def test_no_rule_has_a_wildcard(values):
    objects = render(values)
    found = [
        rule
        for role in of_kind(objects, "ClusterRole") + of_kind(objects, "Role")
        for rule in role["rules"]
        if "*" in str(rule)
    ]
    assert found == []


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
