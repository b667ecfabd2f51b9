"""The division of a GPU by MIG: its instances, and the slices at which each may begin.

An instance takes a run of neighboring memory slices, and its profile allows only some starts.
Instances may be on one GPU together if no slice belongs to two of them; with these starts their
compute slices then always suffice.

Source: NVIDIA MIG user guide, "Supported MIG profiles" (read 2026-11), and the placements that
`nvidia-smi mig -lgipp` prints. A profile with media extensions (`1g.10gb+me`) takes the slices of
the one without; that a GPU has only one of them is not checked here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from gpu_core.decisions.model.bit_set import bits_of
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI


@dataclass(frozen=True, slots=True)
class MigProfile:
    """One kind of instance."""

    memory_slices: int
    starts: tuple[int, ...]
    """The memory slices that it may begin at."""

    def allows(self, starts: Iterable[int]) -> bool:
        """May instances begin at all of these?"""
        return set(starts) <= set(self.starts)

    def slices_from(self, start: int) -> int:
        """The slices that it takes, as bits, when it begins at this one."""
        return bits_of(range(start, start + self.memory_slices))


_SLICES_OF_A30 = 4
_SLICES = 8
_COMPUTE_SLICES = 7

_ONE = MigProfile(1, (0, 1, 2, 3, 4, 5, 6))
_ONE_WITH_TWICE_THE_MEMORY = MigProfile(2, (0, 2, 4, 6))
_TWO = MigProfile(2, (0, 2, 4))
_THREE = MigProfile(4, (0, 4))
_FOUR = MigProfile(4, (0,))
_SEVEN = MigProfile(8, (0,))


def _in_eighths(*names: str) -> Mapping[str, MigProfile]:
    # Only the names differ: they state the memory of the product's slices.
    kinds = (_ONE, _ONE_WITH_TWICE_THE_MEMORY, _TWO, _THREE, _FOUR, _SEVEN)
    return MappingProxyType(dict(zip(names, kinds, strict=True)))


_OF_80_GB = _in_eighths("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")

MIG_PROFILES: Mapping[str, Mapping[str, MigProfile]] = MappingProxyType(
    {
        "a30": MappingProxyType(
            {
                "1g.6gb": MigProfile(1, (0, 1, 2, 3)),
                "2g.12gb": MigProfile(2, (0, 2)),
                "4g.24gb": MigProfile(4, (0,)),
            }
        ),
        "a100-40gb": _in_eighths("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"),
        "a100-80gb": _OF_80_GB,
        "h100-80gb": _OF_80_GB,
        "h200": _in_eighths("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"),
        "b200": _in_eighths("1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"),
    }
)
"""The profiles of each GPU type, by name."""


def mig_profile(gpu_type: str, name: str | None) -> MigProfile | None:
    """The profile of this name on this type of GPU; None: there is none."""
    return None if name is None else MIG_PROFILES.get(gpu_type, {}).get(plain_profile(name))


def plain_profile(name: str) -> str:
    """The profile with the same slices, and no media extensions.

    >>> plain_profile("1g.10gb+me")
    '1g.10gb'
    """
    return name.removesuffix("+me")


def mig_share_milli(gpu_type: str, name: str) -> int:
    """How many thousandths of a GPU is an instance, by its memory? All of it, if it is unknown."""
    profile = mig_profile(gpu_type, name)
    whole = WHOLE_GPU_MILLI
    return whole if profile is None else whole * profile.memory_slices // slices_of(gpu_type)


def mig_part(gpu_type: str, name: str) -> tuple[int, int]:
    """The part of a GPU that an instance costs: its compute slices, and those of the whole GPU.

    The number before the `g` counts them; a GPU has seven, an A30 four (NVIDIA MIG user guide,
    "Partitioning", read 2026-11). By memory, seven `1g` instances would be seven eighths of a GPU
    that has no room for an eighth; by compute no layout is more than one GPU.

    >>> mig_part("a100-80gb", "3g.40gb")
    (3, 7)
    """
    compute_slices = int(plain_profile(name).partition("g")[0])
    return compute_slices, _SLICES_OF_A30 if gpu_type == "a30" else _COMPUTE_SLICES


def slices_of(gpu_type: str) -> int:
    """How many memory slices has a GPU of this type, if it can be partitioned?"""
    return _SLICES_OF_A30 if gpu_type == "a30" else _SLICES


@cache
def best_start(gpu_type: str, name: str, taken: int) -> int | None:
    """The memory slice at which an instance should start; None: no start is free.

    Where most starts remain for further instances, over all profiles; among equals the last, as
    the low slices are those that the large profiles want.

    Args:
        gpu_type: One that `MIG_PROFILES` knows.
        name: One of its profiles, with or without media extensions.
        taken: The memory slices in use, as bits.
    """
    profile = MIG_PROFILES[gpu_type][plain_profile(name)]
    free = [s for s in profile.starts if not taken & profile.slices_from(s)]
    return max(
        free,
        key=lambda s: (_starts_left(gpu_type, taken | profile.slices_from(s)), s),
        default=None,
    )


@cache
def profiles_left(gpu_type: str, taken: int) -> frozenset[str]:
    """The profiles for which a start is free.

    Args:
        gpu_type: One that `MIG_PROFILES` knows; of others, none.
        taken: The memory slices in use, as bits.
    """
    profiles = MIG_PROFILES.get(gpu_type, {})
    return frozenset(name for name in profiles if best_start(gpu_type, name, taken) is not None)


def _starts_left(gpu_type: str, taken: int) -> int:
    return sum(
        not taken & profile.slices_from(start)
        for profile in MIG_PROFILES[gpu_type].values()
        for start in profile.starts
    )
