"""GPU types: the ids that people write, and which of them a product is."""

import re
from collections.abc import Mapping
from types import MappingProxyType

# Nominal memory of one GPU in GiB, as the makers name their products (NVIDIA data sheets,
# read 2026-08). Drivers report a little less, because ECC and firmware take their part.
NOMINAL_MEMORY_GIB: Mapping[str, int] = MappingProxyType(
    {
        "t4": 16,
        "v100-16gb": 16,
        "v100-32gb": 32,
        "a10g": 24,
        "l4": 24,
        "l40s": 48,
        "a100-40gb": 40,
        "a100-80gb": 80,
        "h100-80gb": 80,
        "h200": 141,
        "b200": 180,
    }
)

# Reported over nominal memory: 0.93 (A10G, 22,888 MiB of 24 GiB) to 1.00 (A100) on healthy
# products. A slice of a GPU or another variant of the chip lies far outside.
_LEAST_REPORTED_FRACTION = 0.90
_MOST_REPORTED_FRACTION = 1.05

_BYTES_PER_GIB = 1024**3


def nominal_memory_gib(gpu_type: str) -> int | None:
    """How much memory has one GPU of this type, in GiB? None: the table does not know the type."""
    return NOMINAL_MEMORY_GIB.get(gpu_type)


def gpu_type_from_product_name(product_name: str, memory_bytes: int | None) -> str:
    """Which GPU type is this product?

    A product that the table does not know gets its own name as a short id, so that any GPU works.

    Args:
        product_name: As the driver reports it, such as `NVIDIA A100-SXM4-80GB`.
        memory_bytes: The GPU's total memory as the driver reports it; None: unknown.

    >>> gpu_type_from_product_name("NVIDIA A100-SXM4-80GB", 85_899_345_920)
    'a100-80gb'
    >>> gpu_type_from_product_name("NVIDIA GeForce RTX 4090", None)
    'geforce-rtx-4090'
    """
    words = [w for w in re.split(r"[^a-z0-9]+", product_name.lower()) if w]
    memory_gib = memory_bytes / _BYTES_PER_GIB if memory_bytes is not None else _named_gib(words)
    for gpu_type, nominal_gib in NOMINAL_MEMORY_GIB.items():
        chip, _, size = gpu_type.partition("-")
        if chip not in words:
            continue
        # Chips sold with several sizes are never guessed from the chip alone.
        if memory_gib is None and not size:
            return gpu_type
        if memory_gib is not None and _is_about(memory_gib, nominal_gib):
            return gpu_type
    return _slug(words, memory_gib)


def _named_gib(words: list[str]) -> float | None:
    sizes = [int(m[1]) for w in words if (m := re.fullmatch(r"(\d+)gb", w))]
    return float(sizes[0]) if sizes else None


def _is_about(memory_gib: float, nominal_gib: int) -> bool:
    fraction = memory_gib / nominal_gib
    return _LEAST_REPORTED_FRACTION <= fraction <= _MOST_REPORTED_FRACTION


def _slug(words: list[str], memory_gib: float | None) -> str:
    name = "-".join(w for w in words if w not in ("nvidia", "tesla")) or "unknown"
    if name in NOMINAL_MEMORY_GIB and memory_gib is not None:
        # The name of a known type on a GPU with other memory, such as a slice of it.
        return f"{name}-{memory_gib:.0f}gib"
    return name
