"""Admission webhooks on this machine, which a cluster on this machine asks."""

import base64
import json
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.cluster import Json, KubectlFailed, Namespace
from tests.support.waiting import wait_for

NAME = "rules.platform.test"
"""What the API server calls it in its refusals."""


@contextmanager
def denying(namespace: Namespace, resource: str, why: str, folder: Path) -> Iterator[None]:
    """No client can create such objects in this namespace, until the block ends.

    Args:
        resource: With its group: `jobs.batch`, or `pods`.
        why: What the webhook says.
        folder: For its key and certificate.
    """
    plural, _, _ = resource.partition(".")
    answer = {"allowed": False, "status": {"message": why}}
    with (
        _answering(folder, namespace, lambda _request: answer) as client,
        _configured("Validating", namespace, client, [resource]),
    ):
        # The API server learns of it a moment later.
        wait_for(lambda: _is_denied(namespace, plural), "the webhook is asked")
        yield


@contextmanager
def changing(
    namespace: Namespace,
    resources: Sequence[str],
    patch: Callable[[Json], Sequence[Json]],
    folder: Path,
) -> Iterator[None]:
    """Such objects are changed as they are created in this namespace, until the block ends.

    The API server learns of it a moment later.

    Args:
        resources: With their groups: `jobs.batch`, or `pods`.
        patch: The JSON patch of an object that is about to be created; another thread calls it.
        folder: For its key and certificate.
    """

    def answer(request: Json) -> Json:
        encoded = base64.b64encode(json.dumps(list(patch(request["object"]))).encode()).decode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}

    with (
        _answering(folder, namespace, answer) as client,
        _configured("Mutating", namespace, client, resources),
    ):
        yield


@contextmanager
def _answering(
    folder: Path, namespace: Namespace, answer: Callable[[Json], Json]
) -> Iterator[Json]:
    """How the API server reaches who answers so for this namespace, and allows the rest."""
    certificate, context = _certified(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = review["request"]
            is_ours = request["namespace"] == namespace.name
            review["response"] = {
                "uid": request["uid"],
                **(answer(request) if is_ours else {"allowed": True}),
            }
            body = json.dumps(review).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield {
            "url": f"https://127.0.0.1:{server.server_port}/",
            "caBundle": base64.b64encode(certificate.read_bytes()).decode(),
        }
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def _configured(
    kind: str, namespace: Namespace, client: Json, resources: Sequence[str]
) -> Iterator[None]:
    named = [resource.partition(".") for resource in resources]
    webhook = {
        "name": NAME,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": client,
        "rules": [
            {
                "apiGroups": [group],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": [plural],
            }
            for plural, _, group in named
        ],
    }
    name = f"{kind.lower()}-{namespace.name}"
    namespace.cluster.create(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [webhook],
        }
    )
    try:
        yield
    finally:
        namespace.cluster.kubectl("delete", f"{kind.lower()}webhookconfiguration", name)


def _is_denied(namespace: Namespace, plural: str) -> bool:
    create = ("run", "probe") if plural == "pods" else ("create", plural.removesuffix("s"), "probe")
    try:
        namespace.kubectl(*create, "--image=none", "--dry-run=server")
    except KubectlFailed as refusal:
        return NAME in str(refusal)
    return False


def _certified(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate for this machine that only who has it trusts."""
    key, certificate = folder / "webhook.key", folder / "webhook.crt"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
         "-subj", "/CN=webhook", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context
