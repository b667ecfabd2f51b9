"""The cost of several days as a picture in Markdown.

Prefect's page of a Markdown artifact shows an SVG picture by its `data:` address (Prefect 3.8,
seen in Chromium).
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from gpu_core.decisions.model.units import format_usd

# Narrow enough for a telephone of 400 px; gray reads on a dark and on a light page.
_WIDTH, _BAR_HEIGHT, _GAP, _LEFT, _RIGHT = 360, 16, 8, 80, 80
_STYLE = 'font-family="sans-serif" font-size="12" fill="#8a8f98"'
_BAR, _LAST_BAR = "#4f83cc", "#d9822b"


@dataclass(frozen=True, slots=True)
class DayCost:
    """The cost of one day.

    Attributes:
        day: A UTC day.
        micro_usd: The part that has a price.
    """

    day: date
    micro_usd: int


def cost_plot(days: Sequence[DayCost]) -> str:
    """A bar for each day, the last one in another color, with its amount as text.

    Args:
        days: In order; at least one.
    """
    most = max(1, *(each.micro_usd for each in days))
    room = _WIDTH - _LEFT - _RIGHT
    bars = "".join(
        _bar(each, number, room * each.micro_usd / most, is_last=number == len(days) - 1)
        for number, each in enumerate(days)
    )
    height = len(days) * (_BAR_HEIGHT + _GAP)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" {_STYLE}>'
        f"{bars}</svg>"
    )
    in_words = ", ".join(f"{each.day}: {format_usd(each.micro_usd)}" for each in days)
    return f"![{in_words}](data:image/svg+xml;base64,{b64encode(svg.encode()).decode()})"


def _bar(each: DayCost, number: int, width: float, *, is_last: bool) -> str:
    top = number * (_BAR_HEIGHT + _GAP)
    text_y = top + _BAR_HEIGHT - 4
    return (
        f'<text x="0" y="{text_y}">{each.day}</text>'
        f'<rect x="{_LEFT}" y="{top}" width="{width:.1f}" height="{_BAR_HEIGHT}" '
        f'fill="{_LAST_BAR if is_last else _BAR}"/>'
        f'<text x="{_LEFT + width + 6:.1f}" y="{text_y}">{format_usd(each.micro_usd)}</text>'
    )
