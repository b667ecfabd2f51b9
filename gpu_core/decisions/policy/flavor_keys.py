"""Flavor keys: for which kinds of GPUs a number in the policy holds."""

import re
from collections.abc import Collection
from typing import get_args

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.model.errors import InvalidInput, nearest_name
from gpu_core.decisions.model.section import CapacityType

ANY = "*"
"""The key of every GPU that no more specific key is for."""

_CAPACITY_TYPES: tuple[str, ...] = get_args(CapacityType)
_GPU_TYPE = re.compile(r"[a-z0-9][a-z0-9._-]*")
_HELP = "'*', a GPU type such as 'a100-80gb', a capacity type as '*/spot', or 'a100-80gb/spot'"


def parse_flavor_key(value: object, field: str) -> str:
    """Is this a flavor key?

    Raises:
        InvalidInput: It is not; the message has the capacity type that was probably meant.
    """
    if not isinstance(value, str):
        raise InvalidInput(field, "is not a flavor", got=value, allowed=_HELP)
    gpu_type, slash, capacity_type = value.partition("/")
    if gpu_type != ANY and not _GPU_TYPE.fullmatch(gpu_type):
        raise InvalidInput(field, "is not a flavor", got=value, allowed=_HELP)
    if slash and capacity_type not in _CAPACITY_TYPES:
        raise InvalidInput(
            field,
            "has no known capacity type",
            got=value,
            allowed=", ".join(_CAPACITY_TYPES),
            nearest=nearest_name(capacity_type, _CAPACITY_TYPES),
        )
    return value


def keys_of(flavor: Flavor) -> tuple[str, str, str, str]:
    """The keys that a GPU of this flavor could count under, the most specific first."""
    gpu_type, capacity_type = flavor
    return (f"{gpu_type}/{capacity_type}", gpu_type, f"{ANY}/{capacity_type}", ANY)


def bucket_of(flavor: Flavor, buckets: Collection[str]) -> str:
    """The key among these that a GPU of this flavor counts under; `*` where none fits."""
    return next((key for key in keys_of(flavor) if key in buckets), ANY)


def takes_from(key: str, other: str) -> bool:
    """Do some GPUs that would count under `other` count under `key` instead?"""
    gpu_type, _, capacity_type = key.partition("/")
    other_gpu_type, _, other_capacity_type = other.partition("/")
    overlap = (gpu_type == other_gpu_type or ANY in (gpu_type, other_gpu_type)) and (
        capacity_type == other_capacity_type or "" in (capacity_type, other_capacity_type)
    )
    return overlap and _specificity(key) > _specificity(other)


def _specificity(key: str) -> tuple[bool, bool]:
    gpu_type, slash, _ = key.partition("/")
    return (gpu_type != ANY, bool(slash))
