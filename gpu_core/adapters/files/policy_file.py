"""The policy file: YAML to a policy, every error with its line."""

from pathlib import Path

from gpu_core.adapters.files.yaml_file import read_yaml
from gpu_core.decisions.policy.policy import Policy, parse_policy


def load_policy(path: Path) -> Policy:
    """Which policy does this file hold?

    Raises:
        InvalidInput: The file cannot be read, is no YAML, or a field cannot be used.
        InvalidInputs: Several fields cannot be used; the message has a line for each.
    """
    data, lines = read_yaml(path, what="policy file")
    return parse_policy(data, source=str(path), lines=lines)


def policy_or_default(path: Path | None) -> Policy:
    """Which policy does this file hold? Without a file: the default one.

    Raises:
        InvalidInput: As for `load_policy`.
        InvalidInputs: As for `load_policy`.
    """
    return Policy(version=1) if path is None else load_policy(path)
