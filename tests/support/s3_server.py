"""An S3 server on this machine, which tests may stop and start again."""

from collections.abc import Mapping

from moto.server import ThreadedMotoServer


class S3Server:
    """moto's server on a loopback port; what its buckets hold survives that it is stopped."""

    def __init__(self) -> None:
        self._server: ThreadedMotoServer | None = None
        self._port = 0
        self.start()

    def start(self) -> None:
        """Listen; on the same port as before."""
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=self._port, verbose=False)
        self._server.start()
        _, self._port = self._server.get_host_and_port()

    def stop(self) -> None:
        """Refuse every connection from now on."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    @property
    def environment(self) -> Mapping[str, str]:
        """What boto3 finds this server and its credentials by."""
        return {
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{self._port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
