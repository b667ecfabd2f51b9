"""Files that people write in YAML: plain data, and the line of each field for the errors."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpu_core.adapters.files.unreadable import unreadable
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import refuse

MOST_BYTES = 256 * 1024
"""Of a file that a person writes; a policy of a thousand teams has 100 KiB."""

MOST_NODES = 20_000
"""Keys and values with all aliases followed. A few lines of aliases of aliases are billions."""

MOST_LEVELS = 40
"""Of nesting; the deepest field of a policy has eight."""

MOST_NODES_OF_MANIFEST = 200_000
"""KubeRay's largest CustomResourceDefinition (v1.4) has 60,000 keys and values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlDocument:
    """One document of a stream of YAML.

    Attributes:
        lines: The line of each field in the stream, by its dotted path.
    """

    data: Any
    lines: Mapping[str, int]
    line: int


def read_yaml(path: Path, what: str) -> tuple[Any, dict[str, int]]:
    """The data of this file, and the line of each field, by its dotted path.

    Args:
        what: What it is, for the errors, such as `policy file`.

    Raises:
        InvalidInput: The file cannot be read, is no YAML, is too large or too deep, has an alias of
            itself, a value that cannot be or a key twice.
        InvalidInputs: Several keys come twice.
    """
    return parse_yaml(read_yaml_text(path, what), str(path))


def parse_yaml(text: str, source: str) -> tuple[Any, dict[str, int]]:
    """The data of this text, and the line of each field. One document at most.

    Args:
        source: Where it comes from, for the errors, such as a file's path.

    Raises:
        InvalidInput: As `read_yaml` has it.
    """
    with _mistakes_located(text, source):
        loader = yaml.SafeLoader(text)
        try:
            root = loader.get_single_node()
            return _document(loader, root, source, MOST_NODES)
        finally:
            loader.dispose()


def parse_yaml_documents(text: str, source: str) -> list[YamlDocument]:
    """The documents of this text. Empty ones are left out, as `kubectl` does it.

    Raises:
        InvalidInput: As `read_yaml` has it; of a stream nothing is used then.
    """
    documents = []
    with _mistakes_located(text, source):
        loader = yaml.SafeLoader(text)
        try:
            while loader.check_node():
                root = loader.get_node()
                if root is None or root.tag == _NULL:
                    continue
                data, lines = _document(loader, root, source, MOST_NODES_OF_MANIFEST)
                documents.append(
                    YamlDocument(data=data, lines=lines, line=root.start_mark.line + 1)
                )
        finally:
            loader.dispose()
    return documents


_NULL = "tag:yaml.org,2002:null"
# As YAML's scanner writes it.
_TAB = r"character '\t'"


def _explained(error: yaml.MarkedYAMLError) -> str:
    """What was expected, and where the part starts that may lack its end."""
    if _TAB in (error.problem or ""):
        return "it has a tab where YAML needs spaces"
    opened = error.context_mark
    if opened is None or error.problem_mark is None or opened.line == error.problem_mark.line:
        return str(error.problem)
    return f"{error.problem}, {error.context} that starts in line {opened.line + 1}"


@contextmanager
def _mistakes_located(text: str, source: str) -> Iterator[None]:
    """Say in one sentence, with line and column, why the text is no YAML."""
    try:
        _check_levels(text, source)
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        column = "" if mark is None else f":{mark.column + 1}"
        where = f"{_place(source, mark)}{column}"
        raise InvalidInput(where, f"is not valid YAML: {_explained(error)}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        character = f"U+{ord(text[error.position]):04X}"
        raise InvalidInput(
            f"{source}:{line}", "has a character that YAML does not allow", got=character
        ) from None
    except yaml.YAMLError as error:
        raise InvalidInput(source, "is not valid YAML", got=str(error)) from None


def read_yaml_text(path: Path, what: str) -> str:
    """The text of a file that a person writes.

    Raises:
        InvalidInput: It cannot be read, is no UTF-8 or is too large.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        text = content.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise unreadable(path, error, what) from None
    if len(content) > MOST_BYTES:
        raise InvalidInput(
            str(path), f"is too large for a {what}", allowed=f"{MOST_BYTES // 1024} KiB at most"
        )
    return text


def _place(source: str, mark: Any) -> str:
    return f"{source}:{mark.line + 1}" if mark is not None else source


def _check_levels(text: str, source: str) -> None:
    """Refuse deep nesting before anything recursive reads it."""
    level = 0
    event: yaml.Event
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        level += isinstance(event, yaml.CollectionStartEvent)
        level -= isinstance(event, yaml.CollectionEndEvent)
        if level > MOST_LEVELS:
            raise InvalidInput(
                _place(source, event.start_mark),
                "is nested too deeply",
                allowed=f"{MOST_LEVELS} levels at most",
            )


def _document(
    loader: yaml.SafeLoader, root: yaml.Node | None, source: str, most_nodes: int
) -> tuple[Any, dict[str, int]]:
    _check_size(root, source, most_nodes)
    lines = _lines(root, source)
    return _constructed(loader, root, source), lines


def _check_size(root: yaml.Node | None, source: str, most_nodes: int) -> None:
    """Refuse aliases that contain themselves, and those that make a small file large."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: yaml.Node) -> int:
        known = sizes.get(id(node))
        if known is not None:
            return known
        if id(node) in open_nodes:
            raise InvalidInput(f"{source}:{node.start_mark.line + 1}", "has an alias of itself")
        open_nodes.add(id(node))
        sizes[id(node)] = total = 1 + sum(size(child) for child in _children(node))
        open_nodes.discard(id(node))
        if total > most_nodes:
            raise InvalidInput(
                f"{source}:{node.start_mark.line + 1}",
                "holds too much, with its aliases followed",
                allowed=f"{most_nodes:,} keys and values",
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


def _constructed(loader: yaml.SafeLoader, root: yaml.Node | None, source: str) -> Any:
    if root is None:
        return None
    try:
        return loader.construct_document(root)
    except (ValueError, OverflowError) as error:
        where, got = _impossible(root, source)
        why = str(error).split(":")[0]
        raise InvalidInput(where, f"has a value that cannot be: {why}", got=got) from None


def _impossible(root: yaml.Node, source: str) -> tuple[str, str]:
    """The value of the file that cannot be constructed, and its place."""
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
            return f"{source}:{node.start_mark.line + 1}", str(node.value)[:60]
        finally:
            constructor.dispose()
    return source, "a date or a number"


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
                        remedy=f"remove one. The first is in line {lines[path]}",
                    )
                )
                continue
            lines[path] = line
            visit(value, f"{path}.")

    visit(root, "")
    refuse(errors)
    return lines
