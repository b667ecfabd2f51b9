"""Durations and money: one unit inside, readable text at the edges.

Inside, durations are seconds and money is whole micro-dollars (1 USD = 1,000,000), so that
sums are exact and no float decides anything.
"""

import re
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

from gpu_core.decisions.model.errors import InvalidInput

MICRO_USD_PER_USD = 1_000_000
SECONDS_PER_HOUR = 3600
_BYTES_PER_MIB = 1024 * 1024

# Ten years: longer durations are typing errors, not plans.
LONGEST_DURATION_S = 10 * 365 * 24 * SECONDS_PER_HOUR

# Characters of a duration: more are an attack, or the wrong field.
_LONGEST_TEXT = 64

MOST_USD = 1_000_000_000
"""The most that one amount may be: a thousandth of what the ledger's 64 bits hold in micro-USD."""

# Moments outside are typing errors; and the first and last days of all exist in some zones only.
_FIRST_YEAR, _LAST_YEAR = 1970, 2199

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_WRITTEN_OUT = re.compile(
    r"(\d{1,6}(?:\.\d{1,3})?) ?(d|days?|h|hrs?|hours?|m|mins?|minutes?|s|secs?|seconds?)"
)
_SMALLER = {"d": (24, "h"), "h": (60, "m"), "m": (60, "s")}
_AMOUNT = re.compile(r"\$? ?(\d{1,3}(?:,\d{3})+|\d{1,12}(?:\.\d{1,3})?) ?(k)?(?: ?(?:\$|usd))?")
_DURATION_HELP = "whole seconds, or text such as '90s', '90m', '1h30m', '2d'"


def parse_duration_s(value: object, field: str) -> int:
    """How many seconds is this duration?

    Args:
        value: Whole seconds as an integer or digits, or text such as `90m` or `1h30m`.

    Raises:
        InvalidInput: The value is not a duration, is negative or is over ten years.

    >>> parse_duration_s("1h30m", "max_duration")
    5400
    """
    seconds = _duration_seconds(value)
    if seconds is None:
        nearest = _in_short(value) if isinstance(value, str) else None
        raise InvalidInput(
            field, "is not a duration", got=value, allowed=_DURATION_HELP, nearest=nearest
        )
    if not 0 <= seconds <= LONGEST_DURATION_S:
        raise InvalidInput(field, "is out of range", got=value, allowed="0 seconds to 3650 days")
    return seconds


def with_a_unit(got: object) -> str | None:
    """What to write for a number of seconds that was probably meant in another unit."""
    if type(got) is not int or got <= 0:
        return None
    return f"a number without a unit is seconds: write '{got}m', '{got}h' or '{got}d'"


def _in_short(text: str) -> str | None:
    """The duration that is written out here, such as `3 hours`, in the form that is read."""
    match = _WRITTEN_OUT.fullmatch(text[:_LONGEST_TEXT].strip().lower())
    if match is None:
        return None
    amount, unit = float(match[1]), match[2][0]
    # An hour and a half is 90 minutes; a part of a second is not a duration here.
    while not amount.is_integer() and unit in _SMALLER:
        factor, unit = _SMALLER[unit]
        amount *= factor
    return f"{amount:.0f}{unit}" if amount.is_integer() else None


def _duration_seconds(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if not isinstance(value, str):
        return None
    if len(value) > _LONGEST_TEXT:
        return None
    text = value.strip().lower().replace(" ", "")
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def format_duration(seconds: float | None) -> str:
    """A duration as people read it: `1h 05m`, `4m 10s`, `12.3s`; `unknown` for None."""
    if seconds is None:
        return "unknown"
    if seconds < 60:
        return f"{seconds:.0f}s" if seconds == int(seconds) else f"{seconds:.1f}s"
    whole = round(seconds)
    days, rest = divmod(whole, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, secs = divmod(rest, 60)
    if days:
        return f"{days}d {hours:02d}h"
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {secs:02d}s"


def digits(value: float, count: int = 3) -> str:
    """A number of any size with this many significant digits, and without an exponent.

    >>> digits(0.0000099142), digits(4440.0)
    ('0.00000991', '4440')
    """
    return f"{Decimal(f'{value:.{count}g}'):f}"


def format_usd(micro_usd: int | None) -> str:
    """Money as people read it: `$1.23`, `$0.0042` under a dollar; `unpriced` for None."""
    if micro_usd is None:
        return "unpriced"
    usd = micro_usd / MICRO_USD_PER_USD
    return f"${usd:,.2f}" if abs(usd) >= 1 or micro_usd == 0 else f"${usd:.4f}"


def format_bytes(size_bytes: int) -> str:
    """The size in MiB, or in GiB from 10 GiB on.

    >>> format_bytes(5_000_000), format_bytes(20_000_000_000)
    ('4.8 MiB', '18.6 GiB')
    """
    mib = size_bytes / _BYTES_PER_MIB
    return f"{mib:,.1f} MiB" if mib < 10 * 1024 else f"{mib / 1024:,.1f} GiB"


def count(number: int, noun: str) -> str:
    """A number with its noun: `1 GPU`, `4 GPUs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def as_number(value: object) -> str | None:
    """The remedy for a number that is written with a currency, commas, `k` or quotes. None: none.

    >>> as_number("20k"), as_number("$3.43"), as_number("12")
    ('write 20000', 'write 3.43', 'write 12 without quotes')
    """
    text = value[:_LONGEST_TEXT].strip().lower() if isinstance(value, str) else ""
    match = _AMOUNT.fullmatch(text)
    if match is None:
        return None
    written = match[1].replace(",", "")
    number = str(round(Fraction(written) * 1000)) if match[2] else written
    return f"write {number} without quotes" if number == text else f"write {number}"


def micro_usd(usd: float | int | str, field: str) -> int:
    """Dollars as whole micro-dollars.

    Raises:
        InvalidInput: Not a finite number of zero or more dollars, over `MOST_USD`, or so little
            that it would be rounded to nothing.
    """
    allowed = f"0 to {MOST_USD:,}"
    if isinstance(usd, int | float) and usd > MOST_USD:
        raise InvalidInput(field, "is too large an amount in USD", got=usd, allowed=allowed)
    try:
        amount = Fraction(str(usd))
    except (ValueError, ZeroDivisionError):
        raise InvalidInput(field, "is not an amount in USD", got=usd, allowed=allowed) from None
    if isinstance(usd, bool) or amount < 0:
        raise InvalidInput(field, "is not an amount in USD", got=usd, allowed=allowed)
    if amount > MOST_USD:
        raise InvalidInput(field, "is too large an amount in USD", got=usd, allowed=allowed)
    whole = round(amount * MICRO_USD_PER_USD)
    if amount and not whole:
        raise InvalidInput(
            field, "is less than a micro-dollar", got=usd, allowed=f"0, or 0.000001 to {MOST_USD:,}"
        )
    return whole


def require_aware(moment: datetime, field: str) -> datetime:
    """The moment in UTC; a naive one is refused, because its zone would be a guess."""
    if moment.tzinfo is None:
        raise InvalidInput(
            field, "has no time zone", got=moment.isoformat(), remedy="add 'Z' or an offset"
        )
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(field, "is out of range", got=moment.isoformat()) from None


def require_plausible(moment: datetime, field: str) -> datetime:
    """The moment in UTC; one that only a typing error makes is refused.

    Raises:
        InvalidInput: It has no time zone, or is not in the years 1970 to 2199.
    """
    allowed = f"the years {_FIRST_YEAR} to {_LAST_YEAR}"
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise InvalidInput(field, "is out of range", got=moment.isoformat(), allowed=allowed)
    return require_aware(moment, field)


def epoch_s(moment: datetime) -> float:
    """The moment in seconds since 1970."""
    return moment.timestamp()


_1970 = datetime(1970, 1, 1, tzinfo=UTC)


def epoch_us(moment: datetime) -> int:
    """The moment in whole microseconds since 1970, without the rounding of a float."""
    since = moment.astimezone(UTC) - _1970
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
