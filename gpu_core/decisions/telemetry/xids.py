"""The meaning of the driver's XID errors for a GPU: data with its source and version."""

from collections.abc import Mapping
from enum import StrEnum

RULES_VERSION = "2026-11-27"
"""Of this table and of the thresholds in `health.py`; kept with each GPU that is held."""

SOURCE = "NVIDIA/NVSentinel, xiderrorsmapping.csv, 2026"
"""NVSentinel's table has an action for each of 162 codes. Where NVIDIA's device plugin takes a code
that NVSentinel resets the GPU for as an application's error (109), a person decides."""


class XidClass(StrEnum):
    """The remedy that an XID error needs."""

    APPLICATION = "application"
    """The program on the GPU is wrong: the GPU is well."""
    INFORMATION = "information"
    """It says what the driver has done already."""
    DRAIN = "drain"
    """Nothing new may start on the GPU; a person looks at it."""
    RESET = "reset"
    """The GPU has to be reset."""
    RESTART = "restart"
    """Only a restart of the machine brings the GPU back."""
    UNKNOWN = "unknown"
    """The sources do not know the code, or do not agree: a person decides."""


def _codes(*ranges: int | tuple[int, int]) -> frozenset[int]:
    found: set[int] = set()
    for each in ranges:
        first, last = each if isinstance(each, tuple) else (each, each)
        found.update(range(first, last + 1))
    return frozenset(found)


_CLASSES: Mapping[XidClass, frozenset[int]] = {
    XidClass.APPLICATION: _codes(
        *(8, 11, 13, 25, 31, 32, (39, 41), 43, 45, 60, (68, 72), (75, 77), 80, (82, 86)),
        *(88, 89, 94, (96, 105), (126, 135), 139),
    ),
    XidClass.INFORMATION: _codes(
        *(14, 37, 38, 44, 63, 66, 67, 92, 93, 106, 107, 121, 137, 141, 152, 153, 157, 161)
    ),
    XidClass.DRAIN: _codes(48, 54, 74, 78, (144, 150)),
    XidClass.RESET: _codes(46, 62, 64, 95, 110, 119, 120, 136, 140, 143, 155, 156, 158, 162),
    XidClass.RESTART: _codes(79, 151, 160),
}

_BY_CODE = {code: kind for kind, codes in _CLASSES.items() for code in codes}

_NAMES: Mapping[int, str] = {
    46: "the GPU stopped processing",
    48: "uncorrected memory error",
    54: "auxiliary power is not connected",
    62: "internal microcontroller halt",
    64: "memory rows cannot be remapped",
    74: "NVLink error",
    79: "the GPU has fallen off the bus",
    95: "uncontained memory error",
    119: "the GPU's system processor is not responding",
    120: "error of the GPU's system processor",
    140: "unrecovered memory error",
}


def xid_class(code: int) -> XidClass:
    """The class of this XID: what it asks for.

    >>> xid_class(79), xid_class(13), xid_class(999)
    (<XidClass.RESTART: 'restart'>, <XidClass.APPLICATION: 'application'>, <XidClass.UNKNOWN: 'unknown'>)
    """  # noqa: E501 - a doctest's answer is one line
    return _BY_CODE.get(code, XidClass.UNKNOWN)


def xid_text(code: int) -> str:
    """The code for people: `XID 79 (the GPU has fallen off the bus)`."""
    name = _NAMES.get(code)
    return f"XID {code}" if name is None else f"XID {code} ({name})"
