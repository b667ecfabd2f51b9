"""Files that people write in YAML: plain data, and the line of each field for the errors."""

from pathlib import Path
from typing import Any

import yaml

from gpu_core.decisions.errors import InvalidInput
from gpu_core.decisions.validation import refuse


def read_yaml(path: Path, what: str) -> tuple[Any, dict[str, int]]:
    """What does this file hold, and in which line is each field, by its dotted path?

    Args:
        path: Where it is.
        what: What it is, for the errors, such as `policy file`.

    Raises:
        InvalidInput: The file cannot be read, is no YAML, or has a key twice.
        InvalidInputs: Several keys come twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            str(path), "cannot be read", got=str(error), remedy=f"name a readable {what}"
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
    return data, lines


def _lines(root: yaml.Node | None, source: str) -> dict[str, int]:
    """The line of every key and item, by its dotted path; a key that comes twice is refused."""
    lines: dict[str, int] = {}
    errors: list[InvalidInput] = []

    def visit(node: yaml.Node | None, prefix: str) -> None:
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                lines[f"{prefix}{index}"] = item.start_mark.line + 1
                visit(item, f"{prefix}{index}.")
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
