"""What schemas miss: a table with one manifest for each rule, and what it says."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.kubernetes.lint import Severity, lint
from gpu_core.decisions.kubernetes.lint.secret_rules import names_a_secret
from gpu_core.decisions.kubernetes.manifests.launch import Wanted
from gpu_core.testing.builders.manifests import (
    build,
    container_of,
    make_kubernetes_policy,
    make_launch,
    pod_of,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
DISRUPTION = {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
EXIT_CODES = {
    "action": "FailJob",
    "onExitCodes": {"containerName": "prefect-job", "operator": "In", "values": [1]},
}


def good(provisioner="karpenter", capacity_type="spot", **policy):
    """A Job of ours, without a finding."""
    launch = make_launch(place=Wanted(gpu_types=("a10g",), capacity_types=(capacity_type,)))
    return deepcopy(build(launch, provisioner=provisioner, **policy).jobs[0])


def changed(change, provisioner="karpenter"):
    """A Job of ours with this change."""
    job = good(provisioner)
    change(job)
    return job


def codes(manifest, **policy):
    """The codes of what is found."""
    policy.setdefault("provisioner", "karpenter")
    return [finding.code for finding in lint(manifest, make_kubernetes_policy(**policy))]


def set_gpus(job, **kinds):
    """Other GPUs in the run's container."""
    for kind, amounts in kinds.items():
        found = container_of(job)["resources"][kind]
        container_of(job)["resources"][kind] = {"memory": found["memory"], **amounts}


def require(key, operator="In", values=("x",)):
    """A change that requires this of the node's labels."""
    condition = {"key": key, "operator": operator, "values": list(values)}

    def change(job):
        terms = pod_of(job)["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        terms[0]["matchExpressions"].append(condition)

    return change


def with_rules(*rules):
    """A change of the podFailurePolicy."""
    return lambda job: job["spec"].update(podFailurePolicy={"rules": list(rules)})


def with_env(name, value):
    """A change that adds a variable."""
    return lambda job: container_of(job)["env"].append({"name": name, "value": value})


def in_pod(**fields):
    """A change of the pod's spec."""
    return lambda job: pod_of(job).update(fields)


def in_job(**fields):
    """A change of the Job's spec."""
    return lambda job: job["spec"].update(fields)


def in_context(**fields):
    """A change of the container's security context."""
    return lambda job: container_of(job)["securityContext"].update(fields)


def annotated(name):
    """A change that annotates the pod."""
    return lambda job: job["spec"]["template"]["metadata"]["annotations"].update({name: "true"})


def volume(**fields):
    """A change that adds a volume."""
    return lambda job: pod_of(job)["volumes"].append({"name": "v", **fields})


RULES = [
    pytest.param(
        lambda job: set_gpus(
            job, limits={"nvidia.com/gpu": "0.5"}, requests={"nvidia.com/gpu": "0.5"}
        ),
        ["gpu-not-whole", "gpu-not-whole"],
        id="half a GPU",
    ),
    pytest.param(
        lambda job: set_gpus(job, limits={"nvidia.com/gpu": 2}, requests={"nvidia.com/gpu": 1}),
        ["gpu-limit-differs"],
        id="a limit above the request",
    ),
    pytest.param(
        lambda job: set_gpus(job, limits={}, requests={"nvidia.com/gpu": 1}),
        ["gpu-limit-differs"],
        id="a request without a limit",
    ),
    pytest.param(
        with_env("NVIDIA_VISIBLE_DEVICES", "all"), ["gpu-visible-devices"], id="all devices"
    ),
    pytest.param(
        lambda job: set_gpus(
            job, limits={"nvidia.com/mig-1g.10gb": 1}, requests={"nvidia.com/mig-1g.10gb": 1}
        ),
        ["karpenter-gpu-part"],
        id="a MIG instance that Karpenter is to launch",
    ),
    pytest.param(
        require("node.kubernetes.io/instance-type", values=("g6f.xlarge",)),
        ["gpu-split-machine"],
        id="a machine with an eighth of a GPU",
    ),
    pytest.param(in_pod(tolerations=[]), ["gpu-toleration"], id="no toleration of GPU nodes"),
    pytest.param(
        lambda job: pod_of(job)["volumes"][-1]["emptyDir"].update(sizeLimit="1Ti"),
        ["shm-beyond-memory"],
        id="shared memory beyond the memory limit",
    ),
    pytest.param(
        volume(emptyDir={"medium": "Memory"}), ["shm-unbounded"], id="shared memory without a size"
    ),
    pytest.param(
        require("nvidia.com/gpu.product"),
        ["karpenter-late-label"],
        id="a label that comes after the node",
    ),
    pytest.param(
        in_pod(nodeSelector={"kubernetes.io/hostname": "n1"}),
        ["karpenter-late-label"],
        id="a host name that Karpenter is to launch",
    ),
    pytest.param(
        require("karpenter.k8s.aws/instance-gpu-nam"),
        ["karpenter-unknown-label"],
        id="a misspelled label of Karpenter's",
    ),
    pytest.param(
        require("karpenter.k8s.aws/instance-gpu-count", "Gte", ["4"]),
        ["affinity-operator"],
        id="an operator of NodePools",
    ),
    pytest.param(
        require("karpenter.k8s.aws/instance-gpu-count", "Gt", ["3", "4"]),
        ["affinity-number"],
        id="a comparison with two numbers",
    ),
    pytest.param(in_pod(nodeName="n1"), ["node-name"], id="a node without a check"),
    pytest.param(
        annotated("karpenter.sh/do-not-disrupt"),
        ["spot-do-not-disrupt"],
        id="a spot pod that may not be disturbed",
    ),
    pytest.param(
        annotated("karpenter.sh/do-not-evict"), ["karpenter-old-annotation"], id="an old annotation"
    ),
    pytest.param(
        in_pod(terminationGracePeriodSeconds=30),
        ["grace-too-short"],
        id="a grace that Prefect does not get by with",
    ),
    pytest.param(
        in_pod(terminationGracePeriodSeconds=600),
        ["grace-beyond-warning"],
        id="a grace that no provider gives",
    ),
    pytest.param(in_job(backoffLimit=6), ["two-owners-of-retries"], id="Kubernetes retries too"),
    pytest.param(
        lambda job: job["spec"].pop("backoffLimit"),
        ["two-owners-of-retries"],
        id="Kubernetes retries too, by default",
    ),
    pytest.param(in_pod(restartPolicy="OnFailure"), ["restart-policy"], id="the kubelet retries"),
    pytest.param(
        in_job(podReplacementPolicy="TerminatingOrFailed"),
        ["failure-policy-replacement"],
        id="a pod next to the one that ends",
    ),
    pytest.param(
        with_rules({"action": "Ignore", **DISRUPTION}),
        ["failure-policy-ignore"],
        id="an eviction that is ignored",
    ),
    pytest.param(
        with_rules(EXIT_CODES, {"action": "FailJob", **DISRUPTION}),
        ["failure-policy-order"],
        id="exit codes before evictions",
    ),
    pytest.param(
        with_rules({"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}),
        ["failure-policy-status"],
        id="a condition without its status",
    ),
    pytest.param(
        in_job(activeDeadlineSeconds=60),
        ["deadline-counts-waiting"],
        id="a deadline that counts the wait",
    ),
    pytest.param(in_job(ttlSecondsAfterFinished=60), ["kept-too-short"], id="an unobserved end"),
    pytest.param(
        in_pod(parallelism=1, completions=1),
        ["misplaced-field", "misplaced-field"],
        id="fields where Prefect's template has them",
    ),
    pytest.param(in_pod(hostNetwork=True), ["security-host-namespace"], id="the node's network"),
    pytest.param(
        volume(hostPath={"path": "/"}), ["security-volume"], id="a folder of the node"
    ),
    pytest.param(in_context(privileged=True), ["security-privileged"], id="a privileged container"),
    pytest.param(
        in_context(allowPrivilegeEscalation=True), ["security-escalation"], id="more rights"
    ),
    pytest.param(in_context(runAsNonRoot=False), ["security-root"], id="perhaps root"),
    pytest.param(in_context(runAsUser=0), ["security-root"], id="root"),
    pytest.param(
        in_context(capabilities={"drop": ["ALL"], "add": ["IPC_LOCK"]}),
        ["security-capabilities"],
        id="a capability",
    ),
    pytest.param(
        in_context(seccompProfile={"type": "Unconfined"}), ["security-seccomp"], id="no seccomp"
    ),
    pytest.param(
        lambda job: container_of(job).update(ports=[{"containerPort": 80, "hostPort": 80}]),
        ["security-host-port"],
        id="a port of the node",
    ),
    pytest.param(with_env("HF_TOKEN", "x"), ["literal-secret"], id="a secret by its name"),
    pytest.param(
        with_env("DATABASE", "postgresql://u:p@db/x"), ["literal-secret"], id="a secret by shape"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "want"), RULES)
def test_each_rule_finds_its_mistake_and_nothing_else(change, want):
    assert codes(changed(change)) == want


def test_a_manifest_of_ours_has_no_findings():
    assert lint(good(), make_kubernetes_policy(provisioner="karpenter")) == ()


def test_every_rule_has_a_remedy_and_says_where():
    for change, want in (case.values for case in RULES):
        for finding in lint(changed(change), make_kubernetes_policy(provisioner="karpenter")):
            assert finding.path.startswith(("spec.", "metadata."))
            assert finding.remedy
            assert finding.code in want
            assert str(finding).startswith(f"{finding.severity.value} {finding.code} at ")


def test_a_secret_is_not_repeated():
    manifest = changed(with_env("HF_TOKEN", "hf_dontshowme"))
    assert "dontshowme" not in str(lint(manifest, make_kubernetes_policy(provisioner="karpenter")))


def test_what_is_right_elsewhere_is_no_mistake():
    """The rules know which cluster the manifest is for."""
    late = good("fixed")
    assert codes(late, provisioner="fixed") == []
    assert "karpenter-late-label" in codes(late, provisioner="karpenter")
    root = changed(in_pod(hostNetwork=True))
    assert codes(root, pod_security="template") == []
    assert codes(good(), version="1.20") == ["field-too-new"]
    on_demand = good(capacity_type="on-demand")
    assert codes(on_demand) == []
    pinned = build(make_launch(), provisioner="karpenter").jobs[0]
    assert codes(pinned) == []


def test_a_pod_and_the_templates_of_other_kinds_are_read_too():
    job = changed(with_env("HF_TOKEN", "x"))
    template = job["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    ray = {
        "kind": "RayJob",
        "spec": {"rayClusterSpec": {"workerGroupSpecs": [{"template": template}]}},
    }
    cron = {"kind": "CronJob", "spec": {"jobTemplate": {"spec": job["spec"] | {"backoffLimit": 1}}}}
    assert codes(pod) == ["literal-secret"]
    assert codes(ray) == ["literal-secret"]
    assert codes(cron) == ["two-owners-of-retries", "literal-secret"]
    (finding,) = lint(pod, make_kubernetes_policy(provisioner="karpenter"))
    assert finding.path.startswith("spec.containers[0].env[")


def nodepool(template=None, **spec):
    """A NodePool."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "spec": {"template": {"spec": template or {}}, **spec},
    }


@pytest.mark.parametrize(
    ("manifest", "want"),
    [
        pytest.param(nodepool(), [], id="nothing wrong"),
        pytest.param(
            nodepool(disruption={"consolidationPolicy": "WhenUnderutilized", "expireAfter": "1h"}),
            ["karpenter-old-field", "karpenter-old-field"],
            id="fields of v1beta1",
        ),
        pytest.param(
            nodepool(limits={"resources": {"nvidia.com/gpu": 8}}),
            ["karpenter-old-field"],
            id="limits of v1alpha5",
        ),
        pytest.param(
            {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner"},
            ["karpenter-old-kind"],
            id="a kind of v1alpha5",
        ),
        pytest.param(
            nodepool({"terminationGracePeriod": "2m"}),
            ["karpenter-forced-end"],
            id="less patience than the pods' grace",
        ),
        pytest.param(nodepool({"terminationGracePeriod": "10m"}), [], id="enough patience"),
        pytest.param(
            nodepool({"requirements": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}),
            ["karpenter-requirement"],
            id="a label that a NodePool cannot require",
        ),
        pytest.param(
            nodepool(
                {
                    "requirements": [
                        {
                            "key": "karpenter.k8s.aws/instance-gpu-count",
                            "operator": "Gte",
                            "values": ["4"],
                        }
                    ]
                }
            ),
            ["karpenter-new-operator"],
            id="an operator that only new versions know",
        ),
        pytest.param(
            {
                "kind": "PodDisruptionBudget",
                "spec": {
                    "maxUnavailable": 0,
                    "selector": {"matchLabels": {"prefect-gpu.dev/pool": "gpus"}},
                },
            },
            ["spot-disruption-budget"],
            id="a budget that lets no run go",
        ),
        pytest.param(
            {
                "kind": "PodDisruptionBudget",
                "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "server"}}},
            },
            [],
            id="a budget for something else",
        ),
        pytest.param(
            {
                "kind": "PrometheusRule",
                "spec": {
                    "groups": [
                        {
                            "rules": [
                                {"expr": "DCGM_FI_DEV_FB_USED / DCGM_FI_DEV_FB_TOTAL > 0.9"},
                                {"expr": "DCGM_FI_DEV_XID_ERRORS > 0"},
                            ]
                        }
                    ]
                },
            },
            ["metric-not-exported"],
            id="an alert that never fires",
        ),
    ],
)
def test_objects_around_the_runs(manifest, want):
    assert codes(manifest) == want


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("AWS_SECRET_ACCESS_KEY", True, id="a secret key"),
        pytest.param("AWS_ACCESS_KEY_ID", False, id="the id of one"),
        pytest.param("WANDB_API_KEY", True, id="an API key"),
        pytest.param("PREFECT_API_AUTH_STRING", True, id="Prefect's own"),
        pytest.param("TOKENIZERS_PARALLELISM", False, id="tokens of another kind"),
        pytest.param("MAX_TOKENS", False, id="a number of tokens"),
        pytest.param("TOKEN_FILE", False, id="where a token is"),
        pytest.param("KEYBOARD", False, id="a word with key in it"),
        pytest.param("", False, id="no name"),
    ],
)
def test_names_of_secrets(name, want):
    assert names_a_secret(name) is want


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["Never", "0.5", "8Gi", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "spec", "key"]), inner)
    ),
    max_leaves=5,
)


def paths(value, path=()):
    """The paths of everything inside a value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inside:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from paths(item, (*path, key))


@given(json_values, st.data())
def test_no_manifest_breaks_the_linter(junk, data):
    """Whatever stands anywhere in it: what schemas say is the schema check's business."""
    job = good()
    path = data.draw(st.sampled_from(sorted(paths(job), key=str)))
    place = job
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = junk
    for finding in lint(job, make_kubernetes_policy(provisioner="karpenter")):
        assert finding.severity in Severity


def test_what_runs_on_every_node_may_need_the_node():
    job = changed(in_pod(hostNetwork=True))
    assert "security-host-namespace" in codes(job)
    assert codes({"kind": "DaemonSet", "spec": {"template": job["spec"]["template"]}}) == []


def test_retries_of_a_job_that_runs_nothing_of_ours_are_its_owners():
    job = {"kind": "Job", "spec": {"template": {"spec": {"containers": []}}}}
    assert codes(job) == []
    job["spec"]["template"]["metadata"] = {"labels": {"prefect.io/flow-run-id": "x"}}
    assert codes(job) == ["two-owners-of-retries", "restart-policy"]
