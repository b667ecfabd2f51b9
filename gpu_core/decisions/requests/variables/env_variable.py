"""The job variable `env`: a mapping, or a list of items as a container of Kubernetes has them.

Prefect 3.8 merges mappings by name: the run's over the deployment's over the pool's. It mixes up a
mapping and a list: the keys of an item become a variable, one of both is lost, or the start fails.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_core.decisions.model.errors import InvalidInput

_FIELD = "env"
_LEVELS = "a mapping of names to values, or a list of items with name and value or valueFrom"

Item = Mapping[str, Any]


def env_of_run(
    template: Mapping[str, Any], of_deployment: Mapping[str, Any], of_run: Mapping[str, Any]
) -> dict[str, Any] | list[Item] | None:
    """The environment of a run whose levels Prefect would mix up; None: Prefect merges them.

    A later level counts more, name by name: pool, deployment, run. Of two lists of a deployment and
    its run Prefect takes the run's alone, and so it is here.

    Args:
        of_run: The run's job variables. None as `env` takes back what the levels before it say.

    Raises:
        InvalidInput: A level is neither a mapping nor a list of named items.
    """
    configuration = template.get("job_configuration") or {}
    of_pool = [configuration.get("env"), variable_defaults(template).get("env")]
    # As text it is the place where the variable goes.
    levels = [level for level in of_pool if level is not None and not isinstance(level, str)]
    given = [variables["env"] for variables in (of_deployment, of_run) if "env" in variables]
    if all(isinstance(level, Mapping) for level in (*levels, *given)):
        return None
    if _is_resolved_later(given):
        return None
    if len(given) == 2 and all(isinstance(level, list) for level in given):
        del given[0]
    dotted = {**_dotted(of_deployment), **_dotted(of_run)}
    return _merged([*levels, dotted, *given])


def _is_resolved_later(given: Sequence[object]) -> bool:
    """Does text stand for all of it, which Prefect looks up when the run starts?"""
    texts = [isinstance(level, str) and "{{" in level for level in given]
    return texts in ([True], [True, False], [True, True])


def _dotted(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The values of `env.NAME`, by NAME."""
    return {
        name.removeprefix("env."): value
        for name, value in variables.items()
        if name.startswith("env.")
    }


def _merged(levels: Sequence[object]) -> dict[str, Any] | list[Item]:
    """All of these levels: a list, if one of those that count is a list. None takes one back."""
    found: dict[str, Item] = {}
    has_list = False
    for level in levels:
        if level is None:
            found, has_list = {}, False
            continue
        has_list = has_list or not isinstance(level, Mapping)
        found |= _items(level)
    if not has_list:
        return {name: item["value"] for name, item in found.items()}
    return list(found.values())


def env_of_container(env: dict[str, Any] | list[Item]) -> dict[str, Any] | list[Item]:
    """The variables of a container, without those that are taken back: it would have them empty."""
    if isinstance(env, dict):
        return env
    return [item for item in env if "valueFrom" in item or item["value"] is not None]


def env_of_process(env: object) -> dict[str, Any]:
    """The variables of a process, which takes its values from nowhere else.

    Raises:
        InvalidInput: One comes from an object of Kubernetes, or it is no environment.
    """
    items = _items(env)
    for name, item in items.items():
        if "valueFrom" in item:
            raise InvalidInput(
                f"{_FIELD}.{name}",
                "uses valueFrom, which refers to Kubernetes objects",
                allowed="a value, as on every gpu-process pool",
                remedy="please specify a value, for example a reference to a Prefect Secret block",
            )
    return {name: item["value"] for name, item in items.items()}


def _items(level: object) -> dict[str, Item]:
    if isinstance(level, Mapping):
        return {str(name): {"name": str(name), "value": value} for name, value in level.items()}
    if not isinstance(level, list):
        raise InvalidInput(_FIELD, "is no environment", got=type(level).__name__, allowed=_LEVELS)
    return {_name(item, index): _item(item) for index, item in enumerate(level)}


def _item(item: Item) -> Item:
    return item if "valueFrom" in item else {**item, "value": item.get("value")}


def _name(item: object, index: int) -> str:
    name = item.get("name") if isinstance(item, Mapping) else None
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"{_FIELD}[{index}]", "has no name", allowed=_LEVELS)
    return name


def variable_defaults(base_job_template: Mapping[str, Any]) -> dict[str, object]:
    """The defaults of a pool's job variables, by name; those without one are left out."""
    properties = base_job_template.get("variables", {}).get("properties", {})
    return {name: schema["default"] for name, schema in properties.items() if "default" in schema}
