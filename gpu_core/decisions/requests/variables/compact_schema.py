"""The form of a pool's job variables in few parts, as Prefect's server checks it for each run."""

from collections.abc import Mapping
from typing import Any

_NULL = {"type": "null"}

# Each of these keywords constrains values of one type, and does not constrain null.
_OF_ONE_TYPE = frozenset(
    {
        *("type", "format", "items", "additionalProperties"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "pattern", "minItems", "maxItems"),
        "enum",  # with null among its values
    }
)


def compact_form(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form of a pool's job variables that allows the same values, in fewer parts.

    Prefect's server checks the form and each of its defaults whenever a run is created from a
    deployment, in the process that answers all requests: each part costs time there.

    Args:
        variables: `variables` of the pool's template, a JSON schema. It is not changed. What does
            not have the shape of a schema stays as it is.
    """
    properties = variables.get("properties")
    if not isinstance(properties, Mapping):
        return dict(variables)
    given = variables.get("required")
    required = given if isinstance(given, list) else ()
    return {
        **variables,
        "properties": {
            name: field if name in required else compact_field(field)
            for name, field in properties.items()
        },
    }


def compact_field(field: object) -> object:
    """Return the schema of one optional job variable, in fewer parts.

    A default of null does nothing (`_get_base_config_defaults`, Prefect 3.8), and null is allowed
    for an optional property that states one type (`_fix_null_typing`, Prefect 3.8).
    """
    if not isinstance(field, Mapping):
        return field
    found = {key: part for key, part in field.items() if key != "default" or part is not None}
    match found.get("anyOf"):
        case [{"type": str(), **other} as typed, null] if null == _NULL:
            is_readable = isinstance(typed.get("enum", []), list)
            if is_readable and other.keys() <= _OF_ONE_TYPE:
                del found["anyOf"]
                found.update(typed)
                if "enum" in typed:
                    found["enum"] = [*typed["enum"], None]
    return found
