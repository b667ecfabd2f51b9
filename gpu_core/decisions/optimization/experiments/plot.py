"""Cost against latency as a picture in Markdown, measured and computed filled, projected hollow.

Prefect's page of a Markdown artifact shows an SVG picture by its `data:` address (Prefect 3.8,
seen in Chromium). Both axes are logarithmic: changes are factors.
"""

import math
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from gpu_core.decisions.model.markdown import escaped
from gpu_core.decisions.model.units import digits
from gpu_core.decisions.optimization.experiments.trial import Origin

# Narrow enough for a telephone of 400 px; gray reads on a dark and on a light page.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 360, 260, 60, 20, 16, 40
_GRAY = "#8a8f98"
_COLORS = {Origin.MEASURED: "#4f83cc", Origin.PROJECTED: "#d9822b", Origin.COMPUTED: "#5aa469"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One configuration."""

    label: str
    """Short: a number in the table."""
    usd_per_1k: float
    latency_s: float
    origin: Origin


@dataclass(frozen=True, slots=True)
class _Axis:
    low: float
    high: float
    begin_px: float
    end_px: float

    @classmethod
    def over(cls, values: Sequence[float], begin_px: float, end_px: float) -> "_Axis":
        low, high = math.log10(min(values)), math.log10(max(values))
        margin = max(0.1, 0.08 * (high - low))
        return cls(low - margin, high + margin, begin_px, end_px)

    def at(self, value: float) -> float:
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return self.begin_px + part * (self.end_px - self.begin_px)


def trade_off_plot(points: Sequence[Point]) -> str:
    """Cost to the right, latency upwards; lower left is better. Lines join steps in their order.

    Args:
        points: With cost and latency over 0. None: an empty text.
    """
    if not points:
        return ""
    across = _Axis.over([p.usd_per_1k for p in points], _LEFT, _WIDTH - _RIGHT)
    up = _Axis.over([p.latency_s for p in points], _HEIGHT - _BOTTOM, _TOP)
    places = [(across.at(p.usd_per_1k), up.at(p.latency_s)) for p in points]
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'font-family="sans-serif" font-size="12" fill="{_GRAY}">'
        f"{_frame(points, across, up)}{_lines(points, places)}"
        f"{''.join(_dot(p, *place) for p, place in zip(points, places, strict=True))}</svg>"
    )
    in_words = "; ".join(
        f"{escaped(p.label)} ({p.origin}): ${digits(p.usd_per_1k)} and "
        f"{digits(p.latency_s * 1000)} ms"
        for p in points
    )
    return f"![{in_words}](data:image/svg+xml;base64,{b64encode(svg.encode()).decode()})"


def _frame(points: Sequence[Point], across: _Axis, up: _Axis) -> str:
    costs = sorted({min(p.usd_per_1k for p in points), max(p.usd_per_1k for p in points)})
    waits = sorted({min(p.latency_s for p in points), max(p.latency_s for p in points)})
    bottom = _HEIGHT - _BOTTOM
    return (
        f'<path d="M{_LEFT} {_TOP}V{bottom}H{_WIDTH - _RIGHT}" fill="none" stroke="{_GRAY}"/>'
        + "".join(
            f'<text x="{across.at(c):.1f}" y="{bottom + 16}" text-anchor="middle">'
            f"${digits(c, 2)}</text>"
            for c in costs
        )
        + "".join(
            f'<text x="{_LEFT - 6}" y="{up.at(w) + 4:.1f}" text-anchor="end">'
            f"{digits(w * 1000)} ms</text>"
            for w in waits
        )
        + f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 6}" text-anchor="end">'
        "cost of 1,000 inferences</text>"
        f'<text x="{_LEFT + 6}" y="{_TOP + 4}">latency</text>'
    )


def _lines(points: Sequence[Point], places: Sequence[tuple[float, float]]) -> str:
    parts = []
    for number in range(1, len(points)):
        if points[number].origin is points[number - 1].origin:
            (x1, y1), (x2, y2) = places[number - 1], places[number]
            parts.append(f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}")
    return f'<path d="{"".join(parts)}" fill="none" stroke="{_GRAY}" stroke-dasharray="3"/>'


def _dot(point: Point, x: float, y: float) -> str:
    color = _COLORS[point.origin]
    inside = "none" if point.origin is Origin.PROJECTED else color
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{inside}" stroke="{color}"/>'
        f'<text x="{x + 8:.1f}" y="{y - 6:.1f}">{escape(point.label)}</text>'
    )
