"""Requests to an API server: through the proxy of the environment, and with no other login."""

import anyio
import pytest
from aiohttp import web
from kubernetes_asyncio.client import ApiClient, Configuration

from gpu_core.adapters.kubernetes import KubernetesApi
from tests.gpu_core.adapters.kubernetes.api_server import serving

PATH = "/api/v1/nodes/gpu-a"


class Seen:
    """Answers everything, and keeps what was asked."""

    def __init__(self):
        self.asked = []

    async def handle(self, request):
        self.asked.append((request.host, request.headers.get("Authorization")))
        return web.json_response({"kind": "Node"})


@pytest.fixture
def environment(monkeypatch, tmp_path):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password secret\n")
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


def test_requests_go_through_the_proxy_of_the_environment(environment):
    proxy = Seen()

    async def scenario():
        async with serving(proxy) as api:
            environment.setenv("http_proxy", api._client.configuration.host)
            behind = KubernetesApi(ApiClient(Configuration(host="http://kubernetes.invalid")))
            try:
                assert await behind.get(PATH) == {"kind": "Node"}
            finally:
                await behind.close()

    anyio.run(scenario)
    assert [host for host, _ in proxy.asked] == ["kubernetes.invalid"]


def test_a_cluster_that_no_proxy_serves_is_asked_itself(environment):
    environment.setenv("http_proxy", "http://127.0.0.1:9")  # the discard service
    environment.setenv("no_proxy", "127.0.0.1")
    seen = Seen()

    async def scenario():
        async with serving(seen) as api:
            assert await api.get(PATH) == {"kind": "Node"}

    anyio.run(scenario)
    assert len(seen.asked) == 1
