"""Is this prefect.yaml right? Prefect drops misspelled keys and creates misspelled queues."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prefect.cli.deploy._models import DeploymentConfig, PrefectYamlModel
from prefect.cli.deploy._schedules import _schedule_config_to_deployment_schedule
from prefect.types.names import BANNED_CHARACTERS
from prefect.utilities.annotations import NotSet
from prefect.utilities.templating import apply_values
from pydantic import BaseModel, ValidationError

from gpu_core.adapters.files.yaml_file import parse_yaml, read_yaml_text
from gpu_core.cli.project.entrypoints import entrypoint_problem
from gpu_core.cli.project.keys import anchored_keys, unknown_deployment_keys, unknown_file_keys
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import located


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One deployment of a file, with environment variables in the place of their templates."""

    index: int
    data: Mapping[str, Any] = field(repr=False)

    @property
    def name(self) -> str | None:
        """Its name."""
        value = self.data.get("name")
        return None if value is None else str(value)

    @property
    def entrypoint(self) -> str:
        """The entrypoint of its flow; empty: none."""
        return str(self.data.get("entrypoint") or "")

    @property
    def pool(self) -> str | None:
        """The name of its work pool."""
        value = self._pool.get("name")
        return value if isinstance(value, str) else None

    @property
    def queue(self) -> object:
        """The name of its work queue."""
        return self._pool.get("work_queue_name")

    @property
    def variables(self) -> Mapping[str, Any]:
        """Its job variables."""
        value = self._pool.get("job_variables")
        return value if isinstance(value, dict) else {}

    @property
    def _pool(self) -> Mapping[str, Any]:
        value = self.data.get("work_pool")
        return value if isinstance(value, dict) else {}

    def field(self, name: str) -> str:
        """A field of this deployment, as a person would name it."""
        label = "" if self.name is None else f" {self.name!r}"
        return f"deployments[{self.index}]{label} {name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFile:
    """A prefect.yaml, and what is wrong with it for any pool."""

    source: str
    deployments: tuple[Deployment, ...]
    problems: tuple[InvalidInput, ...]
    lines: Mapping[str, int]
    has_steps: bool = False
    """Steps for all deployments build their image or fetch their code."""

    def located(self, deployment: Deployment, error: InvalidInput) -> InvalidInput:
        """The error of a deployment's field, with file and line."""
        path = f"deployments.{deployment.index}.{error.field}"
        place = f"{self.source}:{self.lines[path]}" if path in self.lines else self.source
        return error.at(f"{place}: {deployment.field(error.field)}")


def read_project_file(path: Path) -> ProjectFile:
    """Read a prefect.yaml as `prefect deploy` does, and note what Prefect would not read.

    Raises:
        InvalidInput: The file cannot be read, or is not YAML with a list of deployments.
    """
    return parse_project_file(read_yaml_text(path, "prefect.yaml"), str(path))


def parse_project_file(text: str, source: str) -> ProjectFile:
    """The project that the text of a prefect.yaml describes.

    Raises:
        InvalidInput: It is not YAML with a list of deployments.
    """
    data, lines = parse_yaml(text, source)
    items = data.get("deployments") or [] if isinstance(data, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise InvalidInput(source, "has no list of deployments", allowed="deployments: [...]")
    deployments = tuple(
        Deployment(index=index, data=_with_environment(item)) for index, item in enumerate(items)
    )
    project = ProjectFile(source=source, deployments=deployments, problems=(), lines=lines)
    has_build = bool(data.get("build"))
    top = {key: value for key, value in data.items() if key != "deployments"}
    of_file = unknown_file_keys(data, anchored_keys(text))
    of_file += _refused_by_prefect(PrefectYamlModel, top)
    problems = [located(error, source, lines) for error in of_file]
    for deployment in deployments:
        problems += [
            project.located(deployment, error)
            for error in _deployment_problems(deployment, has_build)
        ]
    problems += _of_same_name(project)
    return ProjectFile(
        source=source,
        deployments=deployments,
        problems=tuple(problems),
        lines=lines,
        has_steps=has_build or bool(data.get("pull")),
    )


def _with_environment(value: Any) -> Any:
    """As `prefect deploy` does it; what is not set, and what it cannot read, stays as it is."""
    if isinstance(value, dict):
        return {key: _with_environment(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_environment(each) for each in value]
    if not isinstance(value, str):
        return value
    found = apply_values(value, dict(os.environ), remove_notset=False)
    return value if found is NotSet else found


def _unreadable_values(value: object, path: str = "") -> Iterator[InvalidInput]:
    """Errors for unquoted YAML values on which `prefect deploy` fails with a traceback."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _unreadable_values(each, f"{path}.{key}".removeprefix("."))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _unreadable_values(each, f"{path}.{index}")
    elif not isinstance(value, str | int | float | None):
        yield InvalidInput(
            path,
            f"is a {type(value).__name__} in YAML, which is not supported by Prefect",
            got=str(value),
            remedy=f'write "{value}", with quotes',
        )


def is_template(value: object) -> bool:
    """Does Prefect put something else here later?"""
    return "{{" in str(value)


def _deployment_problems(deployment: Deployment, has_build: bool) -> list[InvalidInput]:
    problems = [*unknown_deployment_keys(deployment.data), *_unreadable_values(deployment.data)]
    if not any(problem.nearest == "name" for problem in problems):
        problems += _name_problems(deployment.data.get("name"))
    problems += _schedule_problems(deployment.data)
    is_built = has_build or bool(deployment.data.get("build"))
    if not is_built and not is_template(deployment.entrypoint):
        problem = entrypoint_problem(deployment.entrypoint, Path())
        problems += [] if problem is None else [problem]
    problems += _pool_problems(deployment)
    named = [problem.field for problem in problems]
    refused = _refused_by_prefect(DeploymentConfig, deployment.data)
    return problems + [each for each in refused if not _is_named(each.field, named)]


def _is_named(field: str, named: list[str]) -> bool:
    """Has the field, or a part of it, been named already?"""
    return any(each == field or each.startswith(f"{field}.") for each in named)


def _pool_problems(deployment: Deployment) -> list[InvalidInput]:
    section = deployment.data.get("work_pool")
    if isinstance(section, str):
        remedy = f"write work_pool: {{name: {section}}}"
        return [InvalidInput("work_pool", "is not a mapping", got=section, remedy=remedy)]
    if not isinstance(section, dict) or section.get("name") is None:
        return [InvalidInput("work_pool.name", "is missing", remedy="add work_pool: {name: NAME}")]
    return []


def _name_problems(name: object) -> list[InvalidInput]:
    if name is None or name == "":
        return [InvalidInput("name", "is missing", remedy="add name: NAME")]
    if not isinstance(name, str):
        return [InvalidInput("name", "is not text", got=name, remedy=f'write "{name}"')]
    if any(character in name for character in BANNED_CHARACTERS):
        allowed = f"text without {' '.join(BANNED_CHARACTERS)}"
        return [InvalidInput("name", "contains an invalid character", got=name, allowed=allowed)]
    return []


def _schedule_problems(data: Mapping[str, Any]) -> list[InvalidInput]:
    schedules = data.get("schedules")
    if data.get("schedule") and schedules is not None:
        return [InvalidInput("schedule", "cannot be used with schedules", remedy="remove it")]
    problems = []
    for index, schedule in enumerate(schedules if isinstance(schedules, list) else ()):
        if not isinstance(schedule, dict) or is_template(schedule):
            continue
        try:
            _schedule_config_to_deployment_schedule(schedule)
        except ValidationError as error:
            detail = error.errors(include_url=False)[0]
            name = ".".join(str(part) for part in detail["loc"])
            problems.append(
                InvalidInput(
                    f"schedules.{index}.{name}".removesuffix("."),
                    f"cannot be used: {detail['msg']}",
                    got=schedule.get(name, schedule),
                )
            )
        except ValueError:
            allowed = "one of cron, interval and rrule"
            problems.append(
                InvalidInput(f"schedules.{index}", "has no time", got=schedule, allowed=allowed)
            )
    return problems


def _of_same_name(project: ProjectFile) -> list[InvalidInput]:
    """The second of two would silently take the place of the first."""
    first: dict[tuple[str, str | None], Deployment] = {}
    problems = []
    for deployment in project.deployments:
        known = first.setdefault((deployment.entrypoint, deployment.name), deployment)
        if known is not deployment and deployment.name is not None:
            error = InvalidInput(
                "name",
                "must be unique for each flow",
                got=deployment.name,
                remedy=f"rename it, or remove deployments[{known.index}]",
            )
            problems.append(project.located(deployment, error))
    return problems


def _refused_by_prefect(model: type[BaseModel], data: Mapping[str, Any]) -> list[InvalidInput]:
    """For one value of a wrong type, `prefect deploy` skips the whole file and continues."""
    try:
        model.model_validate(data)
    except ValidationError as error:
        details = error.errors(include_url=False)
    else:
        return []
    problems: dict[str, InvalidInput] = {}
    for detail in details:
        # A schedule has five forms, whose own fields would be named for each of them.
        depth = 2 if detail["loc"][0] == "schedules" else None
        path, got = _place(detail["loc"][:depth], data)
        is_key = detail["loc"][-1] == "[key]"
        if path not in problems:
            allowed = detail["msg"].removeprefix("Input should be ")
            problem = "contains a name that is not text" if is_key else "cannot be used"
            problems[path] = InvalidInput(path, problem, got=got, allowed=allowed)
    # Of a value that may have several forms, the form that it nearly has says most.
    return [each for path, each in problems.items() if not _has_deeper(path, problems)]


def _has_deeper(path: str, paths: Iterable[str]) -> bool:
    return any(each.startswith(f"{path}.") for each in paths)


def _place(location: Sequence[str | int], data: object) -> tuple[str, object]:
    """The field at this place and its value; parts that are members of unions lead nowhere."""
    path: list[str] = []
    for part in location:
        try:
            data = data[part]  # type: ignore[index] # what is no list or mapping raises
        except (TypeError, KeyError, IndexError):
            continue
        path.append(str(part))
    return ".".join(path), data
