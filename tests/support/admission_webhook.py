"""A validating admission webhook on this machine, which a cluster on this machine asks."""

import base64
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.cluster import KubectlFailed, Namespace, wait_until

NAME = "rules.platform.test"
"""What the API server calls it in its refusals."""


@contextmanager
def denying(namespace: Namespace, resource: str, why: str, folder: Path) -> Iterator[None]:
    """Nobody can create such objects in this namespace, until the block ends.

    Args:
        resource: With its group: `jobs.batch`, or `pods`.
        why: What the webhook says.
        folder: For its key and certificate.
    """
    plural, _, group = resource.partition(".")
    certificate, context = _certified(folder)
    answer = {"allowed": False, "status": {"message": why}}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = review["request"]
            is_ours = request["namespace"] == namespace.name
            review["response"] = {
                "uid": request["uid"],
                **(answer if is_ours else {"allowed": True}),
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
    webhook = {
        "name": NAME,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {
            "url": f"https://127.0.0.1:{server.server_port}/",
            "caBundle": base64.b64encode(certificate.read_bytes()).decode(),
        },
        "rules": [
            {
                "apiGroups": [group],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": [plural],
            }
        ],
    }
    name = f"denying-{namespace.name}"
    namespace.cluster.create(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [webhook],
        }
    )
    try:
        # The API server learns of it a moment later.
        wait_until(lambda: _is_denied(namespace, plural), "the webhook is asked")
        yield
    finally:
        namespace.cluster.kubectl("delete", "validatingwebhookconfiguration", name)
        server.shutdown()
        server.server_close()
        thread.join()


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
