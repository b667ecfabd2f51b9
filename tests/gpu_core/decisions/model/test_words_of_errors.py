"""Every field of every form with every kind of wrong value: sentences in our words."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from gpu_core.decisions.catalog.sheet import PriceSheet, parse_sheet
from gpu_core.decisions.kubernetes.variables.variables import PodRequest, parse_pod_request
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.policy import Policy, parse_policy
from gpu_core.decisions.requests.variables.job_variables import GpuRequest, parse_request

WRONG: tuple[object, ...] = (
    *("nonsense", "", "3 hours", ["a\0"], b"x"),
    *(True, 3.7, -1, 10**30, 1e308, float("nan"), float("inf")),
    *([], {}, [1], ["x", "x"], [{}], [{"name": "x"}], {"x": 1}, {1: 2}, {"x": None}, {"x": {}}),
    *(date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)),
)

# pydantic's words, its names for the parts of a type, and Python's names for values.
FOREIGN = re.compile(
    r"Input should|instance of|Field required|Value error|should (match|have)|pydantic|<class|"
    r"Extra inputs|NoneType|function-|constrained-|lax-or|is-instance|\.(int|str|float)\b|\bdict\b"
)

# Clauses that a semicolon joins, and a second full stop; `...` and '..' are no ends of sentences.
NO_SENTENCE = re.compile(r"; [a-z]|[?!]\.|(?<![.'])\.\.(?!\.)")

SHEET = {"version": 1, "provider": "x", "source": "y", "as_of": "2026-01-01", "instance_types": {}}
Place = tuple[str | int, ...]


def _places(model: type[BaseModel], place: Place = ()) -> Iterator[Place]:
    for name, info in model.model_fields.items():
        here = (*place, info.alias or name)
        yield here
        for inner, step in _models(info.annotation):
            yield from _places(inner, here + step)


def _models(annotation: Any, step: Place = ()) -> Iterator[tuple[type[BaseModel], Place]]:
    """The models inside a type, with the key or index under which each stands."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, step
        return
    origin = get_origin(annotation)
    if isinstance(origin, type) and hasattr(origin, "keys"):
        step = (*step, "k")
    elif isinstance(origin, type) and hasattr(origin, "__reversed__"):
        step = (*step, 0)
    for part in get_args(annotation):
        yield from _models(part, step)


def _with(place: Place, value: object) -> Any:
    if not place:
        return value
    inner = _with(place[1:], value)
    return [inner] if place[0] == 0 else {place[0]: inner}


@pytest.mark.parametrize(
    ("parse", "model", "base"),
    [
        pytest.param(parse_policy, Policy, {"version": 1}, id="policy"),
        pytest.param(parse_sheet, PriceSheet, SHEET, id="price sheet"),
        pytest.param(lambda data: parse_request(data, ()), GpuRequest, {}, id="job variables"),
        pytest.param(parse_pod_request, PodRequest, {}, id="variables of pods"),
    ],
)
def test_messages_are_sentences_in_our_words(
    parse: Callable[[Any], object], model: type[BaseModel], base: dict[str, object]
) -> None:
    said = []
    for place in _places(model):
        for value in WRONG:
            try:
                parse({**base, **_with(place, value)})
            except InvalidInput as error:
                said.append(re.sub(r"\(got .*?\)(?=\.|$)", "", str(error), flags=re.MULTILINE))
    assert len(said) > 10 * len(model.model_fields)
    assert [words for words in said if FOREIGN.search(words)] == []
    assert [words for words in said if NO_SENTENCE.search(words)] == []


def test_a_name_is_allowed_once() -> None:
    """Names that two forms have in common are listed once."""
    with pytest.raises(InvalidInput) as raised:
        parse_request({"gpu_cuont": 1}, ["env", "env", "team"])
    assert raised.value.allowed is not None
    allowed = re.split(r", | and ", raised.value.allowed)
    assert len(set(allowed)) == len(allowed)
