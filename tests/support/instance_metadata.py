"""EC2's instance metadata service, version 2, on the loopback interface."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_PREFIX = "/latest/meta-data/"


class FakeMetadata:
    """What the service answers; a test changes it."""

    def __init__(self) -> None:
        self.address = ""
        self.ticket = "ticket-1"
        self.interruption: object = None
        """The answer to `spot/instance-action`; None: 404."""
        self.rebalance: object = None
        self.status = 200
        """Another one: the service is out of order."""
        self.tokens_given = 0
        self.was_asked = threading.Event()
        """The second of the two questions has been answered, or the first with a notice."""


@contextmanager
def metadata_server() -> Iterator[FakeMetadata]:
    """A service of one's own, until the block ends."""
    fake = FakeMetadata()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            lives_s = self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
            if self.path != "/latest/api/token" or not 1 <= int(lives_s) <= 21_600:
                return self._answer(400)
            fake.tokens_given += 1
            return self._answer(fake.status, fake.ticket)

        def do_GET(self) -> None:
            if self.headers["X-aws-ec2-metadata-token"] != fake.ticket:
                return self._answer(401)
            known = {
                "spot/instance-action": fake.interruption,
                "events/recommendations/rebalance": fake.rebalance,
            }
            reported = known.get(self.path.removeprefix(_PREFIX))
            if reported is None:
                self._answer(404)
            else:
                self._answer(
                    fake.status, reported if isinstance(reported, str) else json.dumps(reported)
                )
            if reported is not None or "rebalance" in self.path:
                fake.was_asked.set()
            return None

        def log_message(self, *_arguments: object) -> None:
            """Nothing."""

        def _answer(self, status: int, text: str = "") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
