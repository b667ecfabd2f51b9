"""A shorter form of the job variables allows what the long one allows, for Prefect's own check."""

import asyncio
import json
from functools import cache
from typing import Any
from unittest.mock import Mock

import pytest
from prefect.utilities.schema_tools.validation import ValidationError
from prefect.workers.base import BaseWorker

from gpu_core.decisions.requests.variables.compact_schema import compact_field, compact_form
from gpu_core.worker import GpuKubernetesWorker, GpuProcessWorker

NULL = {"type": "null"}
VALUES = (None, "", "a", "training", 0, -1, 70, 2.5, 10**12, True, ["a"], [1], {"a": "b"})


def long_form(worker: type[BaseWorker[Any, Any, Any]]) -> dict[str, Any]:
    """As pydantic writes it."""
    schema: dict[str, Any] = worker.job_configuration_variables.model_json_schema()
    return schema


def is_allowed(field: dict[str, Any], value: object) -> bool:
    """Does Prefect's server create a run with a job variable of this schema?"""
    rules = {name: rule for name, rule in field.items() if name not in ("title", "description")}
    return _is_allowed(json.dumps(rules), json.dumps(value))


# Many variables have the same rules, and the two worker types have most variables in common.
@cache
def _is_allowed(field: str, value: str) -> bool:
    # Takes more than a second to import, and only this function needs it.
    from prefect.server.api import validation

    one = {"type": "object", "properties": {"variable": json.loads(field)}}
    check = validation._validate_work_pool_job_variables(
        Mock(), "pool", {"variables": one}, {}, {"variable": json.loads(value)},
        ignore_required=False,
    )  # fmt: skip
    try:
        asyncio.run(check)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("worker", [GpuProcessWorker, GpuKubernetesWorker])
def test_the_compact_form_allows_the_same_values(worker):
    form = long_form(worker)
    compact = compact_form(form)

    different = [
        (name, value)
        for name, field in form["properties"].items()
        if compact["properties"][name] != field
        for value in VALUES
        if is_allowed(field, value) is not is_allowed(compact["properties"][name], value)
    ]

    assert different == []
    assert compact != form


def test_a_new_pool_has_the_compact_form():
    for worker in (GpuProcessWorker, GpuKubernetesWorker):
        form = worker.get_default_base_job_template()["variables"]
        assert compact_form(form) == form
        assert form["properties"]["team"]["type"] == "string"


@pytest.mark.parametrize(
    ("field", "compact"),
    [
        ({"anyOf": [{"type": "string"}, NULL], "default": None}, {"type": "string"}),
        ({"anyOf": [{"type": "integer", "minimum": 1}, NULL]}, {"type": "integer", "minimum": 1}),
        ({"type": "integer", "default": 4}, {"type": "integer", "default": 4}),
        (
            {"anyOf": [{"type": "string", "enum": ["a"]}, NULL]},
            {"type": "string", "enum": ["a", None]},
        ),
    ],
    ids=["type", "bound", "default", "enum"],
)
def test_what_is_left_out(field, compact):
    assert compact_field(field) == compact


@pytest.mark.parametrize(
    "field",
    [
        # Null is not the value, and a reference is no type.
        {"anyOf": [{"type": "string", "const": "a"}, NULL]},
        {"anyOf": [{"$ref": "#/$defs/A"}, NULL]},
        {"anyOf": [{"type": "string"}, {"type": "number"}, NULL]},
        {"anyOf": [{"type": ["string", "number"]}, NULL]},
        {"anyOf": [{"type": "string", "enum": "unreadable"}, NULL]},
        {"anyOf": "unreadable"},
        "unreadable",
    ],
    ids=["const", "reference", "two types", "list of types", "no enum", "any of", "no schema"],
)
def test_what_stays(field):
    assert compact_field(field) == field


@pytest.mark.parametrize(
    "form",
    [{}, {"properties": None}, {"properties": {"a": 1}}, {"properties": {"a": {}}, "required": 5}],
)
def test_an_unreadable_form_stays(form):
    assert compact_form(form) == form


def test_a_required_variable_keeps_its_null():
    """Prefect's server adds null to optional properties only."""
    form = {"properties": {"a": {"anyOf": [{"type": "string"}, NULL]}}, "required": ["a"]}
    assert compact_form(form) == form
