"""What a run knows about itself survives the environment."""

from datetime import UTC, datetime

import pytest

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.interruption_hazard import SPOT_PRIOR
from gpu_core.decisions.requests.runs.run_context import RunContext

LEAST = RunContext(flow_run_id="3f0c", attempt=2, attempt_id="3f0c-2")
FULL = RunContext(
    flow_run_id="3f0c",
    attempt=2,
    attempt_id="3f0c-2",
    name="witty-otter",
    devices=("GPU-1", "GPU-2"),
    gpu_type="a100-80gb",
    run_dir="/runs/2",
    checkpoint_uri="s3://bucket/prefix",
    checkpoint_interval_s=90,
    checkpoint_interval_adapts=True,
    checkpoints_kept=3,
    capacity_life=SPOT_PRIOR,
    capacity_since=datetime(2026, 3, 1, 12, tzinfo=UTC),
    grace_s=110,
    notice_file="/notice/notice.json",
    instance_metadata_url="http://169.254.169.254",
    team="vision",
    project="detector",
    deployment="train/nightly",
)


@pytest.mark.parametrize("context", [LEAST, FULL], ids=["only what must be", "everything"])
def test_there_and_back(context: RunContext) -> None:
    """What the worker writes is what the run reads."""
    assert RunContext.from_environment(context.to_environment()) == context


def test_outside_a_run_there_is_no_context() -> None:
    """Whatever else is set."""
    assert RunContext.from_environment({"PREFECT_GPU_ATTEMPT": "1"}) is None


@pytest.mark.parametrize(
    ("variable", "value", "want_error"),
    [
        ("PREFECT_GPU_CAPACITY_LIFE", "2h", "capacity_life is no life"),
        ("PREFECT_GPU_CAPACITY_SINCE", "2026-03-01T12:00:00", "has no time zone"),
    ],
)
def test_what_cannot_be_used(variable: str, value: str, want_error: str) -> None:
    """The error names it."""
    with pytest.raises(InvalidInput, match=want_error):
        RunContext.from_environment(LEAST.to_environment() | {variable: value})
