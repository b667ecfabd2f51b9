"""What the worker has in the cluster is known from its token and its own pod."""

import base64
import json
import logging

import anyio
import pytest
from aiohttp import web

from gpu_core.decisions.kubernetes.rbac.account_token import ServiceAccount, account_of
from gpu_core.decisions.kubernetes.rbac.permitted_references import WorkersOwn
from gpu_core.worker.kubernetes.cluster.own_account import read_workers_own
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights
from tests.gpu_core.adapters.kubernetes.api_server import serving

SUBJECT = "system:serviceaccount:gpu-system:gpu-worker"
BOUND = {"sub": SUBJECT, "kubernetes.io": {"pod": {"name": "gpu-worker-1", "uid": "u"}}}


def token(claims):
    """A token with these claims; its signature is not checked here."""
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.c2ln"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            token(BOUND), ServiceAccount("gpu-system", "gpu-worker", "gpu-worker-1"), id="bound"
        ),
        pytest.param(
            f"Bearer {token({'sub': SUBJECT})}",
            ServiceAccount("gpu-system", "gpu-worker", None),
            id="before 1.21, as in a header",
        ),
        pytest.param(
            token({"sub": SUBJECT, "kubernetes.io": "text"}),
            ServiceAccount("gpu-system", "gpu-worker", None),
            id="a claim of another form",
        ),
        pytest.param(token({"sub": "ada@example.com"}), None, id="a person's"),
        pytest.param(token({"sub": "system:serviceaccount:gpu"}), None, id="half a name"),
        pytest.param(token({"aud": "x"}), None, id="not a real one"),
        pytest.param(token(["x"]), None, id="a list"),
        pytest.param("k8s-aws-v1.aHR0cHM6", None, id="of a cloud's log-in program"),
        pytest.param("e30.!!!.c2ln", None, id="no base64"),
        pytest.param("e30.//79.c2ln", None, id="no text"),
        pytest.param("", None, id="no token"),
    ],
)
def test_whose_token_it_is(text, want):
    assert account_of(text) == want


POD = {
    "spec": {
        "containers": [{"name": "worker", "envFrom": [{"secretRef": {"name": "ledger"}}]}],
        "volumes": [{"name": "ca", "secret": {"secretName": "ca"}}],
        "imagePullSecrets": [{"name": "registry"}],
    }
}
MESSAGE = 'pods "p" is forbidden: User "w" cannot get resource "pods" in API group "" in the namespace "gpu-system"'  # noqa: E501 - the API server's words


class Cluster:
    def __init__(self, status, body):
        self.answer = (status, body)
        self.paths = []

    async def handle(self, request):
        self.paths.append(request.path)
        status, body = self.answer
        return web.json_response(body, status=status)


def workers_own(cluster, text):
    async def read():
        async with serving(cluster) as api:
            api._client.configuration.api_key["BearerToken"] = text
            return await read_workers_own(api, MissingRights())

    return anyio.run(read)


def test_its_secrets_are_those_of_its_pod():
    cluster = Cluster(200, POD)
    assert workers_own(cluster, f"Bearer {token(BOUND)}") == WorkersOwn(
        namespace="gpu-system",
        service_account="gpu-worker",
        secrets=frozenset({"ledger", "ca", "registry"}),
    )
    assert cluster.paths == ["/api/v1/namespaces/gpu-system/pods/gpu-worker-1"]


@pytest.mark.parametrize(
    ("status", "message", "want_warning"),
    [
        pytest.param(403, MESSAGE, True, id="no right"),
        pytest.param(404, "not found", False, id="the pod is gone"),
        pytest.param(503, "away", False, id="no answer"),
    ],
)
def test_without_its_pod_its_account_is_known(status, message, want_warning, monkeypatch, caplog):
    monkeypatch.setattr(logging.getLogger("prefect"), "propagate", True)
    cluster = Cluster(status, {"kind": "Status", "reason": "r", "message": message})
    with caplog.at_level(logging.WARNING):
        own = workers_own(cluster, token(BOUND))
    assert own == WorkersOwn(namespace="gpu-system", service_account="gpu-worker")
    found = [r.message for r in caplog.records if "get pods in namespace 'gpu-system'" in r.message]
    assert bool(found) is want_warning


def test_a_worker_outside_of_the_cluster_asks_for_nothing():
    cluster = Cluster(200, POD)
    assert workers_own(cluster, "k8s-aws-v1.aHR0cHM6") is None
    assert cluster.paths == []
