"""The policy file: YAML to a policy, every error with its line."""

from pathlib import Path

import yaml

from gpu_core.decisions.errors import InvalidInput
from gpu_core.decisions.policy import Policy, parse_policy
from gpu_core.decisions.validation import refuse


def load_policy(path: Path) -> Policy:
    """Which policy does this file hold?

    Raises:
        InvalidInput: The file cannot be read, is no YAML, or a field cannot be used.
        InvalidInputs: Several fields cannot be used; the message has a line for each.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            str(path), "cannot be read", got=str(error), remedy="name a readable policy file"
        ) from None
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        lines = _lines(root, str(path))
        data = loader.construct_document(root) if root is not None else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise InvalidInput(where, "is not valid YAML", got=error.problem) from None
    except yaml.YAMLError as error:
        raise InvalidInput(str(path), "is not valid YAML", got=str(error)) from None
    finally:
        loader.dispose()
    return parse_policy(data, source=str(path), lines=lines)


def _lines(root: yaml.Node | None, source: str) -> dict[str, int]:
    """The line of every key, by its dotted path; a key that comes twice is refused."""
    lines: dict[str, int] = {}
    errors: list[InvalidInput] = []

    def visit(node: yaml.Node | None, prefix: str) -> None:
        if not isinstance(node, yaml.MappingNode):
            return
        for key, value in node.value:
            path = f"{prefix}{key.value}"
            line = key.start_mark.line + 1
            if path in lines:
                # YAML itself would silently let the last one win.
                errors.append(
                    InvalidInput(
                        f"{source}:{line}: {path}",
                        "comes twice",
                        remedy=f"remove one; the first is in line {lines[path]}",
                    )
                )
                continue
            lines[path] = line
            visit(value, f"{path}.")

    visit(root, "")
    refuse(errors)
    return lines
