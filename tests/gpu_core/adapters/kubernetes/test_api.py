"""Requests to an API server: through the proxy of the environment, and with no other login."""

import anyio
import pytest
from aiohttp import web
from kubernetes_asyncio.client import ApiClient, Configuration

from gpu_core.adapters.kubernetes import KubernetesApi
from tests.gpu_core.adapters.kubernetes.api_server import serving

PATH = "/api/v1/nodes/gpu-a"
CLUSTER = "kubernetes.invalid"


class Seen:
    """Answers everything, and keeps what was asked."""

    def __init__(self):
        self.asked = []
        self.proxy_logins = []

    async def handle(self, request):
        self.asked.append((request.host, request.headers.get("Authorization")))
        self.proxy_logins.append(request.headers.get("Proxy-Authorization"))
        return web.json_response({"kind": "Node"})


@pytest.fixture
def environment(monkeypatch, tmp_path):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    netrc = tmp_path / "netrc"
    netrc.write_text(
        "".join(
            f"machine {host} login somebody password secret\n" for host in ("127.0.0.1", CLUSTER)
        )
    )
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    return monkeypatch


@pytest.mark.usefixtures("environment")
def test_a_login_in_netrc_is_not_sent_to_the_cluster():
    seen = Seen()

    async def scenario():
        async with serving(seen) as api:
            assert await api.get(PATH) == {"kind": "Node"}

    anyio.run(scenario)
    ((_host, authorization),) = seen.asked
    assert authorization is None


@pytest.mark.parametrize(
    ("login", "want"),
    [
        pytest.param("", None, id="without a login"),
        pytest.param("us:secret@", "Basic dXM6c2VjcmV0", id="with a login in its URL"),
    ],
)
def test_requests_go_through_the_proxy_of_the_environment(environment, login, want):
    proxy = Seen()

    async def scenario():
        async with serving(proxy) as api:
            address = api._client.configuration.host.removeprefix("http://")
            environment.setenv("http_proxy", f"http://{login}{address}")
            behind = KubernetesApi(ApiClient(Configuration(host=f"http://{CLUSTER}")))
            try:
                assert await behind.get(PATH) == {"kind": "Node"}
            finally:
                await behind.close()

    anyio.run(scenario)
    assert proxy.asked == [(CLUSTER, None)]
    assert proxy.proxy_logins == [want]


def test_a_cluster_that_no_proxy_serves_is_asked_itself(environment):
    environment.setenv("http_proxy", "http://127.0.0.1:9")  # the discard service
    environment.setenv("no_proxy", "127.0.0.1")
    seen = Seen()

    async def scenario():
        async with serving(seen) as api:
            assert await api.get(PATH) == {"kind": "Node"}

    anyio.run(scenario)
    assert len(seen.asked) == 1
