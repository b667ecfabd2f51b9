"""The keys that Prefect reads in a `prefect.yaml`, by its own models; it ignores all others."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

import yaml
from prefect.cli.deploy._models import (
    ConcurrencyLimitSpec,
    DeploymentConfig,
    PrefectYamlModel,
    RawScheduleConfig,
    WorkPoolConfig,
)
from prefect.events import DeploymentTriggerTypes
from pydantic import BaseModel

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import known_names, unknown_name


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        return
    for part in get_args(annotation):
        yield from _models(part)


# `definitions` is where Prefect's documentation puts anchors.
_FILE = (*known_names(PrefectYamlModel), "definitions")
_DEPLOYMENT = tuple(known_names(DeploymentConfig))
_WORK_POOL = tuple(known_names(WorkPoolConfig))
_LIMIT = tuple(known_names(ConcurrencyLimitSpec))
_SCHEDULE = tuple(known_names(RawScheduleConfig))
_TRIGGER = tuple(
    dict.fromkeys(name for model in _models(DeploymentTriggerTypes) for name in known_names(model))
)


def unknown_file_keys(data: Mapping[str, Any], anchored: frozenset[str]) -> list[InvalidInput]:
    """The keys at the top of the file that Prefect does not read.

    Args:
        anchored: The keys that hold anchors: they are there for the rest of the file.
    """
    spare = {key for key in data if key in anchored or str(key).startswith(("x-", "."))}
    return _unknown("", {key: data[key] for key in data if key not in spare}, _FILE)


def unknown_deployment_keys(deployment: Mapping[str, Any]) -> list[InvalidInput]:
    """The keys of a deployment that Prefect does not read.

    Fields are relative to the deployment.
    """
    found = _unknown("", deployment, _DEPLOYMENT)
    found += _unknown("work_pool.", deployment.get("work_pool"), _WORK_POOL)
    found += _unknown("concurrency_limit.", deployment.get("concurrency_limit"), _LIMIT)
    found += _unknown("schedule.", deployment.get("schedule"), _SCHEDULE)
    for index, schedule in enumerate(_items(deployment.get("schedules"))):
        found += _unknown(f"schedules.{index}.", schedule, _SCHEDULE)
    return found + _unknown_trigger_keys("", deployment.get("triggers"))


def _unknown_trigger_keys(prefix: str, triggers: object) -> list[InvalidInput]:
    found: list[InvalidInput] = []
    for index, trigger in enumerate(_items(triggers)):
        where = f"{prefix}triggers.{index}."
        found += _unknown(where, trigger, _TRIGGER)
        if isinstance(trigger, Mapping):
            found += _unknown_trigger_keys(where, trigger.get("triggers"))
    return found


def _unknown(prefix: str, data: object, known: Sequence[str]) -> list[InvalidInput]:
    if not isinstance(data, Mapping):
        return []
    return [unknown_name(f"{prefix}{key}", str(key), known) for key in data if key not in known]


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def anchored_keys(text: str) -> frozenset[str]:
    """The keys at the top of a YAML file with this text that hold an anchor."""
    found: set[str] = set()
    level, key = 0, None
    event: yaml.Event
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        is_value = level > 1
        if level == 1 and isinstance(event, yaml.NodeEvent):
            if key is None and isinstance(event, yaml.ScalarEvent):
                key = event.value
                continue
            is_value = True
        if is_value and key is not None and getattr(event, "anchor", None):
            found.add(key)
        level += isinstance(event, yaml.CollectionStartEvent)
        level -= isinstance(event, yaml.CollectionEndEvent)
        if level == 1 and not isinstance(event, yaml.CollectionStartEvent):
            key = None
    return frozenset(found)
