"""Sets of small whole numbers as the bits of one int: the least first, and copied at no cost."""

from collections.abc import Iterable, Iterator


def bits_of(numbers: Iterable[int]) -> int:
    """The set of these numbers."""
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def numbers_in(bits: int) -> Iterator[int]:
    """The numbers of the set, the least first."""
    while bits:
        least = bits & -bits
        yield least.bit_length() - 1
        bits ^= least
