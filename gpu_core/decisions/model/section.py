"""The base of every section of the policy: strict pydantic models and their common types."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import parsed_by
from gpu_core.decisions.model.units import as_number, micro_usd, parse_duration_s

CapacityType = Literal["on-demand", "spot", "reserved"]


def _price(value: object, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        allowed = "USD per GPU-hour, 0 or more, or null"
        raise InvalidInput(field, "is not a price", allowed=allowed, remedy=as_number(value))
    return micro_usd(value, field)


def parse_budget(value: object, field: str) -> int:
    """How many micro-USD is this budget in USD?

    Raises:
        InvalidInput: It is no number, or not over 0.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        remedy = as_number(value)
        raise InvalidInput(
            field, "is not an amount", got=value, allowed=_BUDGET_HELP, remedy=remedy
        )
    budget = micro_usd(value, field) if not value < 0 else 0
    if not budget:
        raise InvalidInput(field, "pays for nothing", got=value, allowed=_BUDGET_HELP)
    return budget


_BUDGET_HELP = "USD, over 0, such as 12.50, or null for no limit"


def _version(value: object, field: str) -> int:
    # `true` equals 1 in Python, and in pydantic's Literal[1] too.
    if type(value) is not int or value != 1:
        raise InvalidInput(field, "is not a known version", got=value, allowed="1")
    return value


Version = Annotated[int, parsed_by(_version)]
"""Of the form of a file."""

Name = Annotated[str, StringConstraints(min_length=1)]
Points = Annotated[int, Field(ge=0, le=1_000_000_000)]
Duration = Annotated[int, parsed_by(parse_duration_s)]
PositiveDuration = Annotated[int, parsed_by(parse_duration_s), Field(ge=1)]
Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PriceMicroUsd = Annotated[int, parsed_by(_price)]


class Section(BaseModel):
    """A part of the policy: frozen, no unknown keys, no conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
