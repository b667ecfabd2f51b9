"""The reference of policy.yaml: a table for each section, from the schema that checks the file."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from gpu_core.decisions.model.section import (
    Duration,
    PositiveDuration,
    PriceMicroUsd,
    Section,
    Version,
)
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.policy.quotas import FlavorKey, GpusMilli

_NAMED: tuple[tuple[Any, str], ...] = (
    (PositiveDuration, "duration > 0"),
    (Duration, "duration"),
    (PriceMicroUsd, "USD per GPU-hour"),
    (GpusMilli, "GPUs"),
    (FlavorKey, "flavor"),
    (Version, "`1`"),
)
"""What our own types hold in the file, where Python's type says less."""
_BY_NAME = {"_micro_usd": "USD", "limit_gpu_s": "GPU-hours"}
_SCALARS = {bool: "true or false", int: "integer", float: "number", str: "text"} | {
    datetime: "moment (ISO 8601 with zone)",
    time: "time of day",
    date: "date",
}
_BOUNDS = ((Ge, "ge", "≥"), (Gt, "gt", ">"), (Le, "le", "≤"), (Lt, "lt", "<"))
_UNITS_S = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def policy_tables() -> str:
    """A table for each section of the policy, the whole file first."""
    paths: dict[type[Section], list[str]] = {}
    for path, model in sections("", Policy):
        paths.setdefault(model, []).append(path)
    return "\n".join(line for model, known in paths.items() for line in _table(known, model))


def undescribed() -> list[str]:
    """The keys of the policy that have neither a docstring nor a section of their own."""
    return [
        f"{model.__name__}.{name}"
        for _, model in sections("", Policy)
        for name in _own_fields(model)
        if name not in _docstrings(model) and _section_in(_hints(model)[name]) is None
    ]


def _table(paths: Sequence[str], model: type[Section]) -> Iterator[str]:
    yield f"## {', '.join(f'`{path}`' for path in paths) if paths[0] else 'The file'}\n"
    yield f"{_sentence(inspect.getdoc(model) or '')}\n"
    yield "| Key | Type | Default | Description |\n|---|---|---|---|"
    yield from (_row(paths[0], model, name) for name in model.model_fields)
    yield ""


def sections(path: str, model: type[Section]) -> Iterator[tuple[str, type[Section]]]:
    """This section and those inside it, each with its dotted path."""
    yield path, model
    for name, field in model.model_fields.items():
        inner = _section_in(_hints(model)[name])
        if inner is not None:
            yield from sections(_inner_path(path, model, name, field), inner)


def _inner_path(path: str, model: type[Section], name: str, field: FieldInfo) -> str:
    key = field.alias or name
    text = str(_hints(model)[name])
    is_list = "Sequence" in text or "tuple" in text
    return f"{path}.{key}{'.NAME' if 'Mapping' in text else '[]' if is_list else ''}".lstrip(".")


def kind_of_field(model: type[Section], name: str) -> str:
    """The type of a field in words, such as `duration > 0`."""
    hint = _hints(model)[name]
    named = next((kind for end, kind in _BY_NAME.items() if name.endswith(end)), None)
    return f"{named}{' or null' if type(None) in get_args(hint) else ''}" if named else _type(hint)


def _row(path: str, model: type[Section], name: str) -> str:
    field, hint = model.model_fields[name], _hints(model)[name]
    inner = _section_in(hint)
    said = _docstrings(model).get(name, "")
    if inner is not None:
        section = _inner_path(path, model, name, field)
        said = f"{said} See `{section}`.".strip()
    kind = kind_of_field(model, name)
    default = "required" if field.is_required() else _default(name, field.default, inner)
    return f"| `{field.alias or name}` | {kind} | {default} | {_sentence(said)} |"


def _type(hint: Any) -> str:
    named = next((kind for known, kind in _NAMED if hint == known), None)
    if named is not None:
        return named
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(hint, parts)
    if origin in (Union, UnionType):
        return " or ".join("null" if part is type(None) else _type(part) for part in parts)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in parts)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return ", ".join(f"`{member.value}`" for member in hint)
    if isinstance(hint, type) and issubclass(hint, Section):
        return "section"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"mapping of {_type(parts[0])} to {_type(parts[1])}"
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return f"list of {_type(parts[0])}"
    return _SCALARS[hint]


def _annotated(hint: Any, parts: Sequence[Any]) -> str:
    """The type and its bounds; of one of `_NAMED` with bounds of its own, the latter."""
    for known, kind in _NAMED:
        inner = get_args(known)
        if get_origin(known) is Annotated and parts[: len(inner)] == inner:
            unit = _duration if "duration" in kind else "{:,}".format
            return f"{kind.split()[0]}{_bounds(parts[len(inner) :], unit)}"
    return f"{_type(parts[0])}{_bounds(parts[1:])}"


def _duration(seconds: int) -> str:
    size, unit = next((size, unit) for size, unit in _UNITS_S if seconds % size == 0)
    return f"{seconds // size}{unit}"


def _bounds(metadata: Sequence[object], written: Callable[[Any], str] = "{:,}".format) -> str:
    found = [
        f"{sign} {written(getattr(item, name))}"
        for entry in metadata
        for item in (entry.metadata if isinstance(entry, FieldInfo) else (entry,))
        for kind, name, sign in _BOUNDS
        if isinstance(item, kind)
    ]
    return f" {', '.join(found)}" if found else ""


def _default(name: str, value: object, inner: type[Section] | None) -> str:
    if inner is not None and isinstance(value, Section):
        return "as below"
    if name.endswith("_s") and isinstance(value, int) and not name.endswith("_gpu_s"):
        return f"`{_duration(value)}`"
    return f"`{_yaml(value)}`"


def _yaml(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Section):
        return _yaml(value.model_dump())
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_yaml(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_yaml(part) for part in value)}]"
    return f"{value:g}" if isinstance(value, float) else str(getattr(value, "value", value))


def _section_in(hint: Any) -> type[Section] | None:
    """The section that a value of this type is or holds."""
    if isinstance(hint, type) and issubclass(hint, Section):
        return hint
    return next((found for part in get_args(hint) if (found := _section_in(part))), None)


def _hints(model: type[Section]) -> dict[str, Any]:
    return get_type_hints(model, include_extras=True)


def _own_fields(model: type[Section]) -> Iterator[str]:
    return (name for name in model.model_fields if name in model.__annotations__)


def _docstrings(model: type[Section]) -> dict[str, str]:
    """What the string after each field says; a section's own comes before its parent's."""
    found: dict[str, str] = {}
    owners = [m for m in model.__mro__ if m is not Section and issubclass(m, Section)]
    for owner in reversed(owners):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
        assert isinstance(tree, ast.ClassDef)
        for field, after in zip(tree.body, tree.body[1:], strict=False):
            match field, after:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(text))):
                    found[name] = text
    return found


def _sentence(text: str) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    return re.sub(r"\b(None|null)\b", "`null`", text.replace("`null`", "null"))
