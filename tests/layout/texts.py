"""The texts in the code that people may read."""

import ast
import io
import tokenize
from collections.abc import Iterator


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """What this code may print, by line: texts that are no docstrings; X is what is put in."""
    nodes = list(ast.walk(tree))
    skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            parts = (p.value if isinstance(p, ast.Constant) else "X" for p in node.values)
            yield node.lineno, "".join(str(part) for part in parts)
    for node in nodes:
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in skipped:
            yield node.lineno, node.value


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The docstrings of this code, by line of what they belong to: help, where commands are."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text


def notes(source: str) -> Iterator[tuple[int, str]]:
    """What contributors read, by line: comments, texts that stand alone, and ids of test cases."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        is_note = isinstance(node, ast.Expr) or (isinstance(node, ast.keyword) and node.arg == "id")
        if is_note and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.lineno, node.value.value


def names(source: str) -> Iterator[tuple[int, str]]:
    """The names of functions and classes in this code, by line, as words."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, kinds):
            yield node.lineno, node.name.replace("_", " ")
