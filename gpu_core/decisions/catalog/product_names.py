"""GPU types: the ids that people write, and which of them a product is."""

import re
from collections.abc import Collection, Iterable

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES
from gpu_core.decisions.model.errors import nearest_name

# Reported over nominal memory: 0.93 (A10G, 22,888 MiB of 24 GiB) to 1.00 (A100) on healthy
# products. A slice of a GPU or another variant of the chip lies far outside.
_LEAST_REPORTED_FRACTION = 0.90
_MOST_REPORTED_FRACTION = 1.05

_BYTES_PER_GIB = 1024**3

# Words that say the socket or the maker, not the product.
_FORM = re.compile(r"sxm\d|hbm\d[a-z]?|pcie\d?")
_MAKERS = frozenset({"nvidia", "tesla", "geforce", "gpu", "pcie", "sxm"})

_LONGEST_NAME = 120


def nominal_memory_gib(gpu_type: str) -> int | None:
    """How much memory has one GPU of this type, in GiB? None: the catalog has no such type."""
    known = GPU_TYPES.get(gpu_type)
    return None if known is None else known.memory_gib


def gpu_type_from_product_name(product_name: str, memory_bytes: int | None) -> str:
    """The GPU type of a product.

    A product that the catalog does not know gets its own name as a short id, so that any GPU works.

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
    for gpu_type, known in GPU_TYPES.items():
        chip, _, size = gpu_type.partition("-")
        if chip not in words:
            continue
        # Chips sold with several sizes are never guessed from the chip alone.
        if memory_gib is None and not size:
            return gpu_type
        if memory_gib is not None and _is_about(memory_gib, known.memory_gib):
            return gpu_type
    return _slug(words, memory_gib)


def gpu_types_meant(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """The known GPU types that a misspelled or incomplete product name may mean.

    A name with another model is another product: an A10G does not stand for an A100. So only
    names with the same model are candidates, and of those the ones with the stated memory, if
    there are any.

    Returns:
        In alphabetical order; empty: no known type is that product.

    >>> gpu_types_meant("a100", ["a10g", "a100-40gb", "a100-80gb"])
    ('a100-40gb', 'a100-80gb')
    >>> gpu_types_meant("NVIDIA A100 80G", ["a10g", "a100-40gb", "a100-80gb"])
    ('a100-80gb',)
    """
    model, words, sizes = _parts(name)
    if model is None:
        return ()
    same = {}
    for known_name in sorted(known):
        known_model, known_words, known_sizes = _parts(known_name)
        if known_model == model and (words <= known_words or known_words <= words):
            same[known_name] = known_sizes
    of_size = tuple(known_name for known_name, known_sizes in same.items() if sizes & known_sizes)
    return of_size or tuple(same)


def nearest_gpu_types(name: str, known: Collection[str]) -> tuple[str, ...]:
    """The known GPU types that an error suggests: those of the same model, else the nearest name.

    >>> nearest_gpu_types("h1000", ["a100-80gb", "h100-80gb"])
    ('h100-80gb',)
    """
    meant = gpu_types_meant(name, known)
    nearest = None if meant else nearest_name(name, known)
    return meant if nearest is None else (nearest,)


def _parts(name: str) -> tuple[str | None, frozenset[str], frozenset[int]]:
    """The model, the other words and the memory in GiB that a name says."""
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()[:_LONGEST_NAME]) if word]
    numbered = [w for w in words if any(c.isdigit() for c in w) and not _FORM.fullmatch(w)]
    others = frozenset(word for word in words if word.isalpha()) - _MAKERS
    sizes = frozenset(int(m[0]) for word in numbered[1:] if (m := re.match(r"\d{1,4}", word)))
    return (numbered[0] if numbered else None), others, sizes


def _named_gib(words: list[str]) -> float | None:
    sizes = [int(m[1]) for w in words if (m := re.fullmatch(r"(\d+)gb", w))]
    return float(sizes[0]) if sizes else None


def _is_about(memory_gib: float, nominal_gib: int) -> bool:
    fraction = memory_gib / nominal_gib
    return _LEAST_REPORTED_FRACTION <= fraction <= _MOST_REPORTED_FRACTION


def _slug(words: list[str], memory_gib: float | None) -> str:
    name = "-".join(w for w in words if w not in ("nvidia", "tesla")) or "unknown"
    if name in GPU_TYPES and memory_gib is not None:
        # The name of a known type on a GPU with other memory, such as a slice of it.
        return f"{name}-{memory_gib:.0f}gib"
    return name
