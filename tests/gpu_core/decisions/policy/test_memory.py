"""The policy section `memory`."""

import pytest

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.workloads import make_policy


@pytest.mark.parametrize(
    ("section", "want"),
    [
        pytest.param(
            {"action": "shrink", "gpu_types": ["h200"]},
            r"memory\.gpu_types has no effect with action 'shrink'",
            id="types that no action uses",
        ),
        pytest.param(
            {"host_limit_gib": 512},
            r"memory\.host_limit_gib has no effect without host_factor",
            id="a limit of nothing",
        ),
        pytest.param({"host_factor": 1.0}, r"memory\.host_factor", id="not more than before"),
        pytest.param({"max_cost_factor": 0.5}, r"memory\.max_cost_factor", id="less than before"),
    ],
)
def test_what_has_no_effect_is_refused(section, want):
    with pytest.raises(InvalidInput, match=want):
        make_policy(memory=section)
