"""Does an entrypoint such as `flows/train.py:train` name a function of a file?"""

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from gpu_core.adapters.files.unreadable import neighbor
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name

_FORM = "path/to/file.py:function, or package.module.function"


def entrypoint_problem(entrypoint: str, folder: Path) -> InvalidInput | None:
    """The mistake in this entrypoint; None: none that can be seen without running it.

    Args:
        entrypoint: As a deployment has it. Of a module's path only the form is checked.
    """
    if not entrypoint:
        return InvalidInput("entrypoint", "is missing", allowed=_FORM)
    if entrypoint.endswith(":"):
        return _wrong(entrypoint, "does not specify a function", allowed=_FORM)
    file, colon, function = entrypoint.rpartition(":")
    if not colon:
        is_module = "." in entrypoint and "/" not in entrypoint and not entrypoint.endswith(".py")
        if not is_module:
            return _wrong(entrypoint, "does not specify a function", allowed=_FORM)
    if not file.endswith(".py"):
        return _package_problem(entrypoint, folder)  # also package.module:function
    try:
        tree = ast.parse((folder / file).read_text(encoding="utf-8"))
    except FileNotFoundError:
        near = neighbor(folder / file)
        return _wrong(
            entrypoint,
            f"refers to a file that does not exist: {file}",
            nearest=near and f"{Path(file).with_name(Path(near).name)}:{function}",
        )
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        return _wrong(entrypoint, f"refers to a file that cannot be read: {reason}")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        return _wrong(entrypoint, f"refers to a file with a Python syntax error in line {line}")
    names = set(_bound_names(tree.body))
    first = function.split(".")[0]
    if first in names or "*" in names:
        return None
    functions = [node.name for node in tree.body if isinstance(node, _FUNCTIONS)]
    return _wrong(
        entrypoint,
        f"does not refer to a function in {file}",
        allowed=listed(functions),
        nearest=nearest_name(first, functions),
    )


def _package_problem(entrypoint: str, folder: Path) -> InvalidInput | None:
    """The mistake in the package of an entrypoint: only whether it can be found is checked."""
    package = entrypoint.partition(":")[0].split(".")[0]
    is_here = (folder / package).is_dir() or (folder / f"{package}.py").is_file()
    if not package.isidentifier():
        return _wrong(entrypoint, "does not specify a function", allowed=_FORM)
    if is_here or find_spec(package) is not None:
        return None
    return _wrong(entrypoint, f"names the package {package!r}, which is not installed")


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _wrong(
    entrypoint: str, problem: str, *, allowed: str | None = None, nearest: str | None = None
) -> InvalidInput:
    return InvalidInput("entrypoint", problem, got=entrypoint, allowed=allowed, nearest=nearest)


def _bound_names(statements: list[ast.stmt]) -> Iterator[str]:
    """Every name that these statements may bind, those in `if`, `try` and `with` too."""
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                yield node.name
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.alias):
                yield node.asname or node.name.split(".")[0]
