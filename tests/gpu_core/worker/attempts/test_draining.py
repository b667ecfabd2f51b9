"""How much of a grace period a run gets to save."""

import pytest

from gpu_core.worker.attempts.draining import notice_window_s


@pytest.mark.parametrize(
    ("grace_s", "want_window_s"),
    [
        pytest.param(30, 24, id="most of it, and six seconds for Prefect"),
        pytest.param(8, 4, id="half of a short one"),
        pytest.param(0, 0, id="none of none"),
    ],
)
def test_the_window_before_sigterm(grace_s: float, want_window_s: float) -> None:
    """SIGTERM comes early enough for Prefect to end the flow before SIGKILL."""
    assert notice_window_s(grace_s) == want_window_s
