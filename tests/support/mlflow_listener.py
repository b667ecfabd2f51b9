"""An MLflow server that remembers what it is sent, and refuses tags with an answer that leaks."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_RUN = {
    "info": {
        "run_id": "run-1",
        "run_uuid": "run-1",
        "experiment_id": "0",
        "status": "RUNNING",
        "start_time": 1,
        "artifact_uri": "mlflow-artifacts:/0/run-1",
        "lifecycle_stage": "active",
    },
    "data": {},
}
_ANSWERS = {
    "experiments/get-by-name": {"experiment": {"experiment_id": "0", "name": "prefect-gpu"}},
    "experiments/search": {"experiments": [{"experiment_id": "0", "name": "prefect-gpu"}]},
    "runs/create": {"run": _RUN},
    "runs/update": {"run_info": _RUN["info"]},
}


@dataclass(slots=True)
class MlflowListener:
    """What came, and where it listens."""

    address: str
    """`host:port`."""
    authorizations: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    refused: int = 0


@contextmanager
def mlflow_listener() -> Iterator[MlflowListener]:
    """Listen on a free loopback port while the context lasts."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    listener = MlflowListener(f"127.0.0.1:{server.server_port}")
    server.listener = listener  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield listener
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, *_arguments: object) -> None:
        """Quietly."""

    def _answer(self) -> None:
        listener: MlflowListener = self.server.listener  # type: ignore[attr-defined]
        authorization = self.headers.get("Authorization", "")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        listener.authorizations.append(authorization)
        listener.bodies.append(f"{self.path} {body}")
        path = self.path.partition("/mlflow/")[2].partition("?")[0]
        if path == "runs/set-tag":
            listener.refused += 1
            leak = f"refused: {authorization} of {dict(self.headers)}"
            self._send(403, {"error_code": "PERMISSION_DENIED", "message": leak})
            return
        self._send(200, _ANSWERS.get(path, {}))

    def _send(self, status: int, answer: object) -> None:
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
