"""A container job that comes without a container says what is missing."""

import pytest

from flows.run_container import run_container
from gpu_core.decisions.model.errors import InvalidInput


def test_without_a_command_it_says_what_to_give() -> None:
    with pytest.raises(
        InvalidInput, match=r"(?s)container_command is required.*job variable.*gpu-kubernetes"
    ):
        run_container.fn()
