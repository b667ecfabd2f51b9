"""The texts that tests expect in messages, logs and pages, and those that they write themselves."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.layout.product_texts import VALUE

_EXPECTING_METHODS = frozenset(
    ("startswith", "endswith", "count", "index", "find", "partition", "rpartition", "split")
)
_EXPECTING_FUNCTIONS = frozenset(("search", "match", "fullmatch", "findall", "finditer"))
_TEXT_FUNCTIONS = frozenset(("param", "join", "format", "escape", "compile", "dedent", "replace"))
_OF_A_PATTERN = re.compile(r"\(\?[a-z]+\)|\\[A-Za-z]|\.[*+]\??|\[[^\]]*\][*+?]?")


@dataclass(frozen=True)
class Expectation:
    """A text that a test expects, with values as `*`."""

    path: Path
    line: int
    text: str


@dataclass(frozen=True)
class Texts:
    """The texts of tests.

    Attributes:
        expected: What they expect of the product.
        written: By path what a test writes itself, such as scripts, and what any test prints.
    """

    expected: tuple[Expectation, ...]
    written: Mapping[Path, tuple[str, ...]]


@dataclass
class _File:
    """The texts of one file, before it is known what functions of other files expect."""

    path: Path
    expected: list[ast.AST] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    values: dict[str, list[ast.AST]] = field(default_factory=lambda: defaultdict(list))
    parameters: dict[str, list[str]] = field(default_factory=dict)
    imported: set[str] = field(default_factory=set)
    calls: list[ast.Call] = field(default_factory=list)
    printed: list[ast.AST] = field(default_factory=list)
    texts: list[ast.AST] = field(default_factory=list)


def texts_of_tests(paths: Iterable[Path]) -> Texts:
    """The texts that these tests expect, and those that they write themselves.

    A text is expected if it is compared, is `match=` or a pattern, or is an argument of
    `startswith()` and the like. Names lead to what is assigned to them, is a parameter of the test
    or is given to a function.
    """
    files = [_read(path) for path in paths]
    printed = [text_of(node) for each in files for node in each.printed]
    expecting = {
        name: (parameters, each.names.intersection(parameters))
        for each in files
        for name, parameters in each.parameters.items()
        if not each.names.isdisjoint(parameters)
    }
    expected: list[Expectation] = []
    written: dict[Path, tuple[str, ...]] = {}
    for each in files:
        _add_arguments(each, expecting)
        nodes = {id(node): node for node in _resolved(each)}
        expected += [
            Expectation(each.path, getattr(node, "lineno", 0), text_of(node))
            for node in nodes.values()
        ]
        own = (text_of(node) for node in each.texts if id(node) not in nodes)
        written[each.path] = (*own, *printed)
    return Texts(tuple(expected), written)


def text_of(node: ast.AST) -> str:
    """The text of a literal, with `*` for each value in it and without signs of patterns."""
    if isinstance(node, ast.JoinedStr):
        parts = (p.value if isinstance(p, ast.Constant) else VALUE for p in node.values)
        return _OF_A_PATTERN.sub(" | ", "".join(map(str, parts)))
    text = str(getattr(node, "value", ""))
    return _OF_A_PATTERN.sub(" | ", text.replace("*", "|").replace("\n", " | "))


def _read(path: Path) -> _File:
    found = _File(path)
    inner: set[int] = set()
    for node in _nodes(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Compare):
            _expect(found, _compared(node))
        elif isinstance(node, ast.Call):
            _add_call(found, node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.parameters[node.name] = [each.arg for each in node.args.args]
            for decorator in node.decorator_list:
                _add_parametrized(found, decorator)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                _bind(found, target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            _bind(found, node.target, node.value)
        elif isinstance(node, ast.For | ast.comprehension):
            _bind(found, node.target, node.iter)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
            found.imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Raise):
            found.printed += filter(_is_text, _nodes(node))
        elif isinstance(node, ast.JoinedStr):
            inner.update(map(id, node.values))
            found.texts.append(node)
        elif _is_text(node) and id(node) not in inner:
            found.texts.append(node)
    return found


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """As `ast.walk()`, in less time: without contexts and operators."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for value in vars(node).values():
            if isinstance(value, list):
                waiting += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.expr | ast.arguments | ast.slice):
                waiting.append(value)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _compared(node: ast.Compare) -> Iterator[ast.AST]:
    """What is compared, without a container by name: `code in NAMES` expects no text."""
    yield node.left
    for operator, right in zip(node.ops, node.comparators, strict=True):
        if not (isinstance(operator, ast.In | ast.NotIn) and isinstance(right, ast.Name)):
            yield right


def _expect(found: _File, nodes: Iterable[ast.AST]) -> None:
    for node in nodes:
        for part in _parts(node):
            if isinstance(part, ast.Name):
                found.names.add(part.id)
            else:
                found.expected.append(part)


def _add_call(found: _File, call: ast.Call) -> None:
    found.calls.append(call)
    name = _name(call.func)
    if isinstance(call.func, ast.Attribute) and name in _EXPECTING_METHODS:
        _expect(found, call.args)
    elif name in _EXPECTING_FUNCTIONS:
        _expect(found, call.args[:1])
    elif name == "print":
        found.printed += filter(_is_text, _nodes(call))
    _expect(found, [each.value for each in call.keywords if each.arg == "match"])


def _add_parametrized(found: _File, decorator: ast.expr) -> None:
    """Bind the names of `@pytest.mark.parametrize("one, two", [...])` to their columns."""
    if not isinstance(decorator, ast.Call) or _name(decorator.func) != "parametrize":
        return
    names_of, rows = (*decorator.args, None, None)[:2]
    if names_of is None or rows is None:
        return
    named = [part.value for part in _parts(names_of) if isinstance(part, ast.Constant)]
    names = [name.strip() for part in named for name in str(part).split(",")]
    for row in getattr(rows, "elts", [rows]):
        columns = row.args if isinstance(row, ast.Call) else getattr(row, "elts", [row])
        if len(columns) != len(names):
            columns = [row] * len(names)
        for name, column in zip(names, columns, strict=True):
            found.values[name].append(column)


def _bind(found: _File, target: ast.AST, value: ast.AST) -> None:
    for part in ast.walk(target):
        if isinstance(part, ast.Name):
            found.values[part.id].append(value)


def _add_arguments(found: _File, expecting: Mapping[str, tuple[list[str], set[str]]]) -> None:
    """Add what calls give to functions of this file, and to imported ones, that expect it."""
    for call in found.calls:
        name, arguments = _name(call.func), call.args
        if name == "partial" and arguments:
            name, arguments = _name(arguments[0]), arguments[1:]
        is_known = name in found.parameters or name in found.imported
        if name not in expecting or not is_known:
            continue
        parameters, wanted = expecting[name]
        names = (parameter for parameter in parameters if parameter != "self")
        given = [
            *zip(names, arguments, strict=False),
            *((each.arg or "", each.value) for each in call.keywords),
        ]
        _expect(found, [value for parameter, value in given if parameter in wanted])


def _resolved(found: _File) -> Iterator[ast.AST]:
    yield from found.expected
    seen: set[str] = set()
    while waiting := found.names - seen:
        seen |= waiting
        for name in waiting:
            for value in found.values.get(name, ()):
                for part in _parts(value):
                    if isinstance(part, ast.Name):
                        found.names.add(part.id)
                    else:
                        yield part


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """The texts and names that this expression may be, without those that lead to it."""
    if _is_text(node) or isinstance(node, ast.Name):
        yield node
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and _is_text(node.func.value):
            yield node.func.value
        if _name(node.func) in _TEXT_FUNCTIONS:
            for argument in node.args:
                yield from _parts(argument)
    elif isinstance(node, ast.Dict):
        for value in node.values:
            yield from _parts(value)
    elif isinstance(node, ast.IfExp):
        yield from _parts(node.body)
        yield from _parts(node.orelse)
    elif isinstance(node, ast.List | ast.Tuple | ast.Set | ast.BinOp | ast.Starred | ast.BoolOp):
        for child in ast.iter_child_nodes(node):
            yield from _parts(child)


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
