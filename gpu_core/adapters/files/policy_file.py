"""The policy file: YAML to a policy, every error with its line."""

from collections.abc import Mapping
from pathlib import Path

from gpu_core.adapters.files.yaml_file import parse_yaml, read_yaml_text
from gpu_core.decisions.policy.policy import Policy, parse_policy


def load_policy(path: Path) -> Policy:
    """The policy in this file.

    Raises:
        InvalidInput: The file cannot be read, is no YAML, or a field cannot be used.
        InvalidInputs: Several fields cannot be used; the message has a line for each.
    """
    return load_policy_and_lines(path)[0]


def load_policy_and_lines(path: Path) -> tuple[Policy, Mapping[str, int]]:
    """The policy in this file, and the line of each field by its dotted path.

    Raises:
        InvalidInput: As `load_policy` has it.
    """
    data, lines = parse_yaml(read_policy_text(path), str(path))
    return parse_policy(data, source=str(path), lines=lines), lines


def read_policy_text(path: Path) -> str:
    """The text of this file.

    Raises:
        InvalidInput: The file cannot be read.
    """
    return read_yaml_text(path, "policy file")


def policy_of(text: str, source: str) -> Policy:
    """The policy in this text.

    Args:
        source: The origin of the text, for the errors, such as a file's path.

    Raises:
        InvalidInput: It is no YAML, or a field cannot be used.
        InvalidInputs: Several fields cannot be used; the message has a line for each.
    """
    data, lines = parse_yaml(text, source)
    return parse_policy(data, source=source, lines=lines)
