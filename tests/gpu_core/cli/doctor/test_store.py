"""A checkpoint store that only the pods of runs may reach is no failure of the installation."""

import pytest

from gpu_core.adapters.checkpoints.store import StoreMisconfigured, StoreUnreachable
from gpu_core.cli.doctor import services
from gpu_core.cli.doctor.services import store_findings
from gpu_core.decisions.checkpoints.store_errors import permanent_remedy

URI = "s3://bucket/checkpoints"


def refused(code):
    """What the store is when S3 answers with this code."""
    return StoreMisconfigured(URI, code, permanent_remedy((), code=code))


@pytest.mark.parametrize(
    ("error", "want_in_pods", "want_here"),
    [
        pytest.param(refused("AccessDenied"), "unknown", "failed", id="other credentials"),
        pytest.param(StoreUnreachable(URI, "no route"), "unknown", "failed", id="another network"),
        pytest.param(refused("NoSuchBucket"), "failed", "failed", id="no such bucket"),
    ],
)
def test_what_only_runs_may_reach_is_not_known(monkeypatch, error, want_in_pods, want_here):
    def probe(_uri):
        raise error

    monkeypatch.setattr(services, "probe_store", probe)
    (in_pods,) = store_findings(URI, in_pods=True, is_default=False)
    (here,) = store_findings(URI, in_pods=False, is_default=False)
    assert (in_pods.status.value, here.status.value) == (want_in_pods, want_here)
    if want_in_pods == "unknown":
        assert in_pods.message.startswith(
            f"{URI} is not accessible from this machine, but only flow runs require"
        )
