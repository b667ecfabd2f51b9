"""The capacity section of the policy file."""

import pytest

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.capacity import CapacityPolicy
from gpu_core.decisions.policy.policy import parse_policy


def test_without_the_section_the_defaults_hold() -> None:
    """Patience; critical runs on on-demand."""
    policy = parse_policy({"version": 1}).capacity
    assert policy == CapacityPolicy()
    assert (policy.strategy, policy.critical_on_demand) == ("patience", True)


def test_durations_are_as_people_write_them() -> None:
    """In the section and below it."""
    section = {"changeover": "3m", "zones": {"first_backoff": "10s"}}
    policy = parse_policy({"version": 1, "capacity": section}).capacity
    assert (policy.changeover_s, policy.zones.first_backoff_s) == (180, 10)


@pytest.mark.parametrize(
    ("section", "want_message"),
    [
        pytest.param({"strategy": "patient"}, "Did you mean 'patience'", id="strategy"),
        pytest.param({"stratgy": "greedy"}, "Did you mean 'strategy'", id="key"),
        pytest.param({"at_budget": "explode"}, "stop, continue", id="end of the budget"),
        pytest.param({"target_spot_share": 1.5}, "target_spot_share is too large", id="share"),
        pytest.param({"zones": {"window": "soon"}}, "capacity.zones.window", id="duration"),
    ],
)
def test_what_is_wrong_is_named(section: dict[str, object], want_message: str) -> None:
    """With its field and what is allowed."""
    with pytest.raises(InvalidInput, match=want_message):
        parse_policy({"version": 1, "capacity": section})
