"""Kubernetes quantities: `500m`, `1.5Gi`, `2e3` in whole units of ours, and back.

The grammar is that of `k8s.io/apimachinery/pkg/api/resource` (Quantity, Kubernetes 1.34): a signed
decimal number and one suffix: binary (Ki to Ei), decimal (n, u, m, none, k to E) or an exponent.
"""

import re
from fractions import Fraction
from math import ceil, floor

from gpu_core.decisions.model.errors import InvalidInput

MIB = 1024**2
GIB = 1024**3

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
# Digits are bounded so that no text makes a number that takes long to compute with.
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,2}))?"
)
# Of a number instead of a text; more digits than the text may have.
_LARGEST = 10**30
_HELP = "a Kubernetes quantity such as '4', '500m', '1.5Gi' or '2e3'"


def parse_quantity(value: object, field: str) -> Fraction:
    """How much is this quantity, exactly, in its base unit (cores, bytes, pieces)?

    Args:
        value: A quantity as text, or a plain number as YAML gives it.

    Raises:
        InvalidInput: It is not a quantity.

    >>> parse_quantity("1500m", "cpu")
    Fraction(3, 2)
    """
    is_number = isinstance(value, int | float) and abs(value) < _LARGEST
    text = str(value) if is_number or isinstance(value, str) else ""
    match = None if isinstance(value, bool) else _QUANTITY.fullmatch(text)
    if match is None:
        raise InvalidInput(field, "is not a quantity", got=value, allowed=_HELP)
    amount = Fraction(f"0{match['number']}".removesuffix("."))
    if match["sign"] == "-":
        amount = -amount
    if match["exponent"] is not None:
        return amount * _power_of_ten(int(match["exponent"]))
    suffix = match["suffix"] or ""
    if suffix in _BINARY:
        return amount * Fraction(1024 ** _BINARY[suffix])
    return amount * _power_of_ten(_DECIMAL[suffix])


def _power_of_ten(exponent: int) -> Fraction:
    return Fraction(10**exponent) if exponent >= 0 else Fraction(1, 10**-exponent)


def cpu_milli(value: object, field: str, *, up: bool = False) -> int:
    """How many thousandths of a core is this? Rounded down, as room is; with `up` as needs are."""
    amount = parse_quantity(value, field) * 1000
    return ceil(amount) if up else floor(amount)


def memory_mib(value: object, field: str, *, up: bool = False) -> int:
    """How many MiB is this? Rounded down, as room is; with `up` as needs are."""
    amount = parse_quantity(value, field) / MIB
    return ceil(amount) if up else floor(amount)


def parse_whole(value: object, field: str) -> int:
    """How many pieces is this?

    Raises:
        InvalidInput: It is not a whole number of zero or more: an extended resource such as
            `nvidia.com/gpu` has no fractions.
    """
    amount = parse_quantity(value, field)
    if amount.denominator != 1 or amount < 0:
        raise InvalidInput(field, "is not a whole number", got=value, allowed="0 or more")
    return amount.numerator


def format_cpu(milli: int) -> str:
    """Cores as Kubernetes writes them: `4`, `500m`."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def format_memory(mib: int) -> str:
    """Memory as Kubernetes writes it: `16Gi`, `1536Mi`."""
    return f"{mib // 1024}Gi" if mib and mib % 1024 == 0 else f"{mib}Mi"
