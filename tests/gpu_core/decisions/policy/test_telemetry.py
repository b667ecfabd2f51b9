"""Policy section `telemetry`."""

import pytest

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.policy import parse_policy


@pytest.mark.parametrize(
    ("url", "want"),
    [
        pytest.param("http://prometheus.monitoring:9090", None, id="in the cluster"),
        pytest.param(
            "https://p.example.com/prometheus/", "https://p.example.com/prometheus", id="/"
        ),
    ],
)
def test_an_address_is_taken_without_a_slash_at_the_end(url, want):
    policy = parse_policy({"version": 1, "telemetry": {"prometheus_url": url}})
    assert policy.telemetry.prometheus_url == (want or url)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("prometheus:9090", id="no scheme"),
        pytest.param("ftp://prometheus", id="another protocol"),
        pytest.param("http://", id="no host"),
        pytest.param("http://p:99999", id="no port"),
        pytest.param("http://user:secret@p:9090", id="a password"),
        pytest.param("http://p:9090?query=1", id="a query"),
        pytest.param(9090, id="a number"),
        pytest.param("http://[::1", id="half an address"),
    ],
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(InvalidInput, match=r"telemetry\.prometheus_url") as refused:
        parse_policy({"version": 1, "telemetry": {"prometheus_url": url}})
    assert "secret" not in str(refused.value)
