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
    ("section", "want"),
    [
        pytest.param(
            {"telemetry": {"planning_window": "30s"}},
            "telemetry.planning_window is too small (got '30s'). Allowed: 60 to 3,600 s",
            id="a window that is too short",
        ),
        pytest.param(
            {"telemetry": {"planning_window": "2h"}},
            "telemetry.planning_window is too large (got '2h'). Allowed: 60 to 3,600 s",
            id="a window that is too long",
        ),
        pytest.param(
            {"telemetry": {"history_days": 400}},
            "telemetry.history_days is too large (got 400). Allowed: 0 to 366",
            id="days say their unit themselves",
        ),
        pytest.param(
            {"idle": {"notify": "slack-webhook/gpu"}},
            "idle.notify is not a list (got 'slack-webhook/gpu'). Allowed: a list",
            id="one block that is no list",
        ),
        pytest.param(
            {"memory": {"action": "larger-gpu", "gpu_types": "h200"}},
            "memory.gpu_types is not a list (got 'h200'). Allowed: a list",
            id="one type that is no list",
        ),
        pytest.param(
            {"hangs": {"stuck_after": "1s"}},
            "hangs.stuck_after is too small (got '1s'). Allowed: 15 s or more",
            id="a time without a step that is shorter than a judgment takes",
        ),
    ],
)
def test_what_is_typed_wrong_is_said_with_what_is_allowed(section, want):
    with pytest.raises(InvalidInput) as refused:
        parse_policy({"version": 1, **section})
    assert want in str(refused.value)


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
