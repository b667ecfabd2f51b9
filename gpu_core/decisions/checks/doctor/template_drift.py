"""The differences of a pool's base job template from the one that `setup` gives to a new pool."""

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_core.decisions.checks.doctor.finding import Finding, ok, warning
from gpu_core.decisions.checks.prefect.pool_commands import setup_command
from gpu_core.decisions.model.units import count
from gpu_core.decisions.requests.variables.compact_schema import compact_field

# What people edit in the form, and what a new version may word anew.
_WORDING = ("default", "title", "description", "examples")


def drift_findings(
    pool: str, worker_type: str, current: Mapping[str, Any], newest: Mapping[str, Any]
) -> Iterator[Finding]:
    """The differences of a pool's template, and what `prefect-gpu setup` does about them.

    Args:
        newest: What this version gives to a new pool.
    """
    ours, theirs = _properties(newest), _properties(current)
    missing = sorted(ours.keys() - theirs.keys())
    if missing:
        yield warning(
            "template.variables",
            f"{count(len(missing), 'job variable')} missing from the base job template: "
            f"{', '.join(missing)}",
            f"to add them, run: {setup_command(pool, worker_type)}",
        )
    changed = sorted(
        name for name in ours.keys() & theirs.keys() if _form(ours[name]) != _form(theirs[name])
    )
    if changed:
        yield warning(
            "template.variables",
            f"{count(len(changed), 'job variable')} different from this version: "
            f"{', '.join(changed)}",
            "these changes are preserved by prefect-gpu setup. To use the new definitions, "
            "create a new pool",
        )
    edited = [
        f"default of {name}: {theirs[name].get('default')!r}"
        for name in sorted(ours.keys() & theirs.keys())
        if _default(ours[name]) != _default(theirs[name])
    ]
    edited += [f"own variable {name}" for name in sorted(theirs.keys() - ours.keys())]
    edited += [
        f"job_configuration{path}"
        for path in _differing(current.get("job_configuration"), newest.get("job_configuration"))
    ]
    if edited:
        yield ok(
            "template.edits",
            f"{count(len(edited), 'custom change')}, preserved by prefect-gpu setup",
            edited,
        )
    if not missing and not changed and not edited:
        yield ok("template.variables", "matches this version")


def _properties(template: Mapping[str, Any]) -> Mapping[str, Any]:
    variables = template.get("variables")
    found = variables.get("properties") if isinstance(variables, Mapping) else None
    known = found if isinstance(found, Mapping) else {}
    return {name: schema for name, schema in known.items() if isinstance(schema, Mapping)}


def _form(schema: Mapping[str, Any]) -> dict[str, Any]:
    compact = compact_field(schema)
    known = compact if isinstance(compact, Mapping) else {}
    return {key: value for key, value in known.items() if key not in _WORDING}


def _default(schema: Mapping[str, Any]) -> object:
    return schema.get("default")


def _differing(one: object, other: object, path: str = "") -> Iterator[str]:
    """The paths at which two pieces of plain data differ, as deep as they are alike."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*map(str, one), *map(str, other)}):
            yield from _differing(one.get(key), other.get(key), f"{path}.{key}")
        return
    is_list = isinstance(one, list) and isinstance(other, list) and len(one) == len(other)
    if is_list and isinstance(one, list) and isinstance(other, list):
        for index, (mine, yours) in enumerate(zip(one, other, strict=True)):
            yield from _differing(mine, yours, f"{path}[{index}]")
        return
    if one != other:
        yield path
