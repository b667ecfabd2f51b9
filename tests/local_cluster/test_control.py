"""When the programs of a cluster count as ready."""

from types import SimpleNamespace

import pytest


@pytest.mark.parametrize(
    "certificate",
    [
        pytest.param(None, id="it has none yet"),
        pytest.param("", id="it is about to write it"),
        pytest.param("-----BEGIN CERTIFICATE-----\nMIIB", id="it has written half of it"),
    ],
)
def test_an_api_server_is_not_ready_without_its_certificate(
    local_cluster_module, tmp_path, certificate
):
    path = tmp_path / "kubernetes" / "apiserver.crt"
    path.parent.mkdir()
    if certificate is not None:
        path.write_text(certificate)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        '{"clusters": [{"cluster": {"server": "https://127.0.0.1:1", "certificate-authority": "'
        + str(path)
        + '"}}], "users": [{"user": {"token": "t"}}]}'
    )
    control = local_cluster_module("control")
    settings = SimpleNamespace(state=tmp_path, kubeconfig=kubeconfig)
    assert control._apiserver_is_ready(settings, SimpleNamespace()) is False
