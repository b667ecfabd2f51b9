"""What the README shows works."""

import re
from pathlib import Path

import pytest
import yaml

from gpu_core.decisions.policy.policy import parse_policy

README = Path(__file__).parents[2] / "README.md"
POLICY_KEYS = frozenset({"priorities", "ordering"})


def policy_examples():
    blocks = re.findall(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)
    return [block for block in blocks if POLICY_KEYS & set(yaml.safe_load(block))]


@pytest.mark.parametrize("block", policy_examples())
def test_a_policy_that_the_readme_shows_is_accepted(block):
    """Whoever copies it gets no error."""
    parse_policy({"version": 1, **yaml.safe_load(block)})


def test_there_are_policies_to_check():
    """The search above finds what it is for."""
    assert len(policy_examples()) == 2
