"""What refusals of the API server mean, in its own words."""

import pytest

from gpu_core.decisions.kubernetes.status.api_errors import (
    how_to_supply,
    is_of_quota,
    missing_right,
    why_refused,
)
from gpu_core.decisions.kubernetes.status.pod_pending import refused, waiting_of

RBAC = (
    'jobs.batch is forbidden: User "system:serviceaccount:prefect-gpu:gpu-worker" cannot create '
    'resource "jobs" in API group "batch" in the namespace "ml"'
)
POD_LOG = (
    'pods "gpu-1" is forbidden: User "worker" cannot get resource "pods/log" in API group "" in '
    'the namespace "ml"'
)
CLUSTER_WIDE = (
    'nodes is forbidden: User "w" cannot list resource "nodes" in API group "" at the cluster scope'
)
QUOTA = (
    'jobs.batch "gpu-1" is forbidden: exceeded quota: small, requested: count/jobs.batch=1, used: '
    "count/jobs.batch=2, limited: count/jobs.batch=2"
)
WEBHOOK = (
    'admission webhook "validation.gatekeeper.sh" denied the request: [images] the image\n'
    "registry.example/train is not allowed."
)
INVALID = (
    'Job.batch "gpu-1" is invalid: spec.template.spec.containers[0].env[3].name: Invalid value: '
    '"1 bad": a valid environment variable name must consist of alphabetic characters'
)


@pytest.mark.parametrize(
    ("message", "want"),
    [
        pytest.param(RBAC, "create jobs.batch in namespace 'ml'", id="of a group"),
        pytest.param(POD_LOG, "get pods/log in namespace 'ml'", id="of the core"),
        pytest.param(CLUSTER_WIDE, "list nodes in all namespaces", id="of the whole cluster"),
        pytest.param(QUOTA, None, id="a quota"),
        pytest.param(WEBHOOK, None, id="a webhook"),
        pytest.param(INVALID, None, id="a value"),
    ],
)
def test_a_missing_right_is_named(message, want):
    assert missing_right(message) == want


@pytest.mark.parametrize(
    ("message", "want"),
    [
        pytest.param(
            RBAC,
            "The worker is not permitted to create jobs.batch in namespace 'ml'. Add the "
            "namespace to `runs.namespaces` in the Helm chart or correct the `namespace` "
            "variable of the pool or run.",
            id="a right",
        ),
        pytest.param(
            'namespaces "mll" not found',
            "Namespace 'mll' was not found in the cluster. Create it or correct the "
            "`namespace` variable of the pool or run.",
            id="a namespace",
        ),
        pytest.param(
            'jobs.batch "gpu-1" is forbidden: unable to create new content in namespace ml because '
            "it is being terminated",
            "The namespace 'ml' is being deleted. Recreate it after its deletion or correct "
            "the `namespace` variable of the pool or run, then submit the run again.",
            id="a namespace that is being deleted",
        ),
        pytest.param(
            WEBHOOK,
            "Admission webhook 'validation.gatekeeper.sh' denied the request: [images] the "
            "image registry.example/train is not allowed. Please change the base job "
            "template, the run's job variables or the webhook's rule.",
            id="a webhook",
        ),
        pytest.param(
            INVALID,
            f"The cluster rejected the request: {INVALID}. Please correct the pool's base "
            "job template or the run's job variables.",
            id="a value",
        ),
        pytest.param(
            "",
            "The cluster rejected the request: no reason was provided. Please correct the "
            "pool's base job template or the run's job variables.",
            id="without a word",
        ),
    ],
)
def test_a_refusal_is_shown_with_what_helps(message, want):
    assert why_refused(message) == want


def test_a_refusal_that_quotes_an_object_is_cut():
    assert len(why_refused("x" * 10_000)) < 1_000


def exceeded(wanted, limited):
    return f"exceeded quota: q, requested: {wanted}, used: {limited}, limited: {limited}"


@pytest.mark.parametrize(
    ("message", "want"),
    [
        pytest.param(QUOTA, True, id="others have it"),
        pytest.param(exceeded("pods=1,memory=8Gi", "memory=16Gi,pods=4"), True, id="of several"),
        pytest.param(exceeded("requests.nvidia.com/gpu=4", "requests.nvidia.com/gpu=2"), False,
                     id="it never fits"),
        pytest.param(exceeded("pods=1,memory=17Gi", "memory=16Gi,pods=4"), False,
                     id="of several one never fits"),
        pytest.param(exceeded("cpu=500m", "cpu=0.5"), True, id="written in another way"),
        pytest.param("exceeded quota: in words of tomorrow", True, id="other words"),
        pytest.param("status unknown for quota: q, resources: pods", True, id="it is new"),
        pytest.param("failed quota: q: must specify limits.cpu", False, id="what it does not say"),
        pytest.param(RBAC, False, id="a right"),
        pytest.param(WEBHOOK, False, id="a webhook"),
    ],
)  # fmt: skip
def test_which_quota_has_room_later(message, want):
    assert is_of_quota(f'pods "gpu-1" is forbidden: {message}') is want


def test_what_never_fits_into_a_quota_is_reported_so():
    message = exceeded("count/jobs.batch=1", "count/jobs.batch=0")
    assert why_refused(message) == (
        f"The request exceeds the total of a ResourceQuota in its namespace: {message}. You "
        "can increase the quota or reduce the request."
    )


NO_ACCOUNT = (
    'pods "gpu-1" is forbidden: error looking up service account ml/nope: serviceaccount "nope" '
    "not found"
)
CORRECT = "or correct its name in the run's job variables, the pool's template or the policy."
IN_RUNS = f" in the namespace of the run, {CORRECT}"


@pytest.mark.parametrize(
    ("words", "want"),
    [
        pytest.param('secret "hf" not found', f"Create Secret 'hf'{IN_RUNS}", id="a Secret"),
        pytest.param('configmap "c" not found', f"Create ConfigMap 'c'{IN_RUNS}", id="a ConfigMap"),
        pytest.param(
            "couldn't find key token in Secret ml/hf",
            f"Add the key 'token' to Secret ml/hf, {CORRECT}",
            id="a key",
        ),
        pytest.param(
            'persistentvolumeclaim "data" not found',
            f"Create PersistentVolumeClaim 'data'{IN_RUNS}",
            id="a claim",
        ),
        pytest.param(
            NO_ACCOUNT,
            f"Create ServiceAccount 'nope'{IN_RUNS}",
            id="a ServiceAccount",
        ),
        pytest.param(
            'pods "gpu-1" is forbidden: no PriorityClass with name prefect-gpu-rush was found',
            "Create PriorityClass 'prefect-gpu-rush' (the Helm chart has those of the policy's "
            "queues), correct it in the pool's template, or set the policy's "
            "kubernetes.priority_classes to false.",
            id="a PriorityClass",
        ),
        pytest.param("0/3 nodes are available", None, id="something else"),
    ],
)
def test_an_object_that_is_not_there_is_named_with_what_helps(words, want):
    assert how_to_supply(words) == want
    waiting = {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": words}}}
    status = {"phase": "Pending", "containerStatuses": [{"name": "prefect-job", **waiting}]}
    of_pod = waiting_of({"status": status})
    assert of_pod is not None
    assert of_pod.needs_person
    assert words in of_pod.message
    for found in (of_pod, refused(words)):
        assert want is None or found.remedy == want
        assert found.remedy
