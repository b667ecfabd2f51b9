"""The byte before each value of the pickle-free form. Written into checkpoints: never changed.

Integers in the form are little-endian and unsigned: `Q` counts, `I` short lengths.
"""

NONE, TRUE, FALSE = b"N", b"1", b"0"
INT = b"i"
"""8 bytes, signed."""
LONG_INT = b"I"
"""Its length, then this many bytes, signed."""
FLOAT, COMPLEX = b"f", b"c"
STR = b"s"
"""UTF-8; surrogates are encoded as every other code point."""
BYTES, BYTEARRAY = b"b", b"B"
LIST, TUPLE, SET, FROZENSET = b"l", b"t", b"S", b"Z"
DICT = b"d"
ORDERED_DICT = b"O"
"""Its items, then its attributes as a dict: torch keeps versions of modules there."""
INTS, FLOATS = b"q", b"e"
"""The items of a list or a tuple, 8 bytes each; the tag of the container follows."""
ARRAY, SCALAR, TENSOR = b"a", b"x", b"T"
REFERENCE = b"r"
"""An object that came before, by its number."""

INLINE, IN_SECTION = b"-", b">"
"""Whether an array's bytes follow, or lie in a section of their own."""

MAX_DEPTH = 100
"""How deep values may be nested; states of trainings are nested about ten deep."""
SECTION_BYTES = 16 * 1024
"""Smaller arrays stay inline: a section of their own would not make them faster."""
