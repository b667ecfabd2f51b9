"""Files that people write in YAML: plain data, and the line of each field for the errors."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from gpu_core.decisions.errors import InvalidInput
from gpu_core.decisions.validation import refuse

MOST_BYTES = 256 * 1024
"""Of a file that a person writes; a policy of a thousand teams has 100 KiB."""

MOST_NODES = 20_000
"""Keys and values with all aliases followed. A few lines of aliases of aliases are billions."""

MOST_LEVELS = 40
"""Of nesting; the deepest field of a policy has eight."""


def read_yaml(path: Path, what: str) -> tuple[Any, dict[str, int]]:
    """What does this file hold, and in which line is each field, by its dotted path?

    Args:
        path: Where it is.
        what: What it is, for the errors, such as `policy file`.

    Raises:
        InvalidInput: The file cannot be read, is no YAML, is too large or too deep, has an alias of
            itself, a value that cannot be or a key twice.
        InvalidInputs: Several keys come twice.
    """
    text = _text(path, what)
    try:
        _check_levels(text, path)
        return _parsed(text, path)
    except yaml.MarkedYAMLError as error:
        where = _place(path, error.problem_mark)
        raise InvalidInput(where, "is not valid YAML", got=error.problem) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        character = f"U+{ord(text[error.position]):04X}"
        raise InvalidInput(
            f"{path}:{line}", "has a character that YAML does not allow", got=character
        ) from None
    except yaml.YAMLError as error:
        raise InvalidInput(str(path), "is not valid YAML", got=str(error)) from None


def _text(path: Path, what: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        text = content.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise InvalidInput(
            str(path), "cannot be read", got=str(error), remedy=f"name a readable {what} in UTF-8"
        ) from None
    if len(content) > MOST_BYTES:
        raise InvalidInput(
            str(path), f"is too large for a {what}", allowed=f"{MOST_BYTES // 1024} KiB at most"
        )
    return text


def _place(path: Path, mark: Any) -> str:
    return f"{path}:{mark.line + 1}" if mark is not None else str(path)


def _check_levels(text: str, path: Path) -> None:
    """Refuse deep nesting before anything recursive reads it."""
    level = 0
    event: yaml.Event
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        level += isinstance(event, yaml.CollectionStartEvent)
        level -= isinstance(event, yaml.CollectionEndEvent)
        if level > MOST_LEVELS:
            raise InvalidInput(
                _place(path, event.start_mark),
                "is nested too deeply",
                allowed=f"{MOST_LEVELS} levels at most",
            )


def _parsed(text: str, path: Path) -> tuple[Any, dict[str, int]]:
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        _check_size(root, path)
        lines = _lines(root, str(path))
        return _constructed(loader, root, path), lines
    finally:
        loader.dispose()


def _check_size(root: yaml.Node | None, path: Path) -> None:
    """Refuse aliases that contain themselves, and those that make a small file large."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: yaml.Node) -> int:
        known = sizes.get(id(node))
        if known is not None:
            return known
        if id(node) in open_nodes:
            raise InvalidInput(f"{path}:{node.start_mark.line + 1}", "has an alias of itself")
        open_nodes.add(id(node))
        sizes[id(node)] = total = 1 + sum(size(child) for child in _children(node))
        open_nodes.discard(id(node))
        if total > MOST_NODES:
            raise InvalidInput(
                f"{path}:{node.start_mark.line + 1}",
                "holds too much, with its aliases followed",
                allowed=f"{MOST_NODES:,} keys and values",
            )
        return total

    if root is not None:
        size(root)


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value


def _constructed(loader: yaml.SafeLoader, root: yaml.Node | None, path: Path) -> Any:
    if root is None:
        return None
    try:
        return loader.construct_document(root)
    except (ValueError, OverflowError) as error:
        where, got = _impossible(root, path)
        why = str(error).split(":")[0]
        raise InvalidInput(where, f"has a value that cannot be: {why}", got=got) from None


def _impossible(root: yaml.Node, path: Path) -> tuple[str, str]:
    """Which of the file's values cannot be constructed, and where is it?"""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += _children(node)
        if not isinstance(node, yaml.ScalarNode):
            continue
        constructor = yaml.SafeLoader("")
        try:
            constructor.construct_document(node)
        except (ValueError, OverflowError):
            return f"{path}:{node.start_mark.line + 1}", str(node.value)[:60]
        finally:
            constructor.dispose()
    return str(path), "a date or a number"


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
            if not isinstance(key, yaml.ScalarNode):
                where = f"{source}:{key.start_mark.line + 1}"
                errors.append(InvalidInput(where, "has a key that is not text"))
                continue
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
