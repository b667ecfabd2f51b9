"""The picture of the days is one that a browser draws, and its text says the same."""

import re
from base64 import b64decode
from datetime import date
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.costs.reports.cost_plot import DayCost, cost_plot

PICTURE = re.compile(r"!\[(.*)\]\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)")
days = st.lists(
    st.builds(DayCost, st.dates(date(2026, 1, 1)), st.integers(0, 10**12)), min_size=1, max_size=8
)


def test_each_day_has_its_amount_in_the_picture_and_in_words():
    plot = cost_plot([DayCost(date(2026, 3, 3), 1_000_000), DayCost(date(2026, 3, 4), 2_500_000)])
    words, picture = PICTURE.fullmatch(plot).groups()
    assert words == "2026-03-03: $1.00, 2026-03-04: $2.50"
    assert {"2026-03-03", "$1.00", "2026-03-04", "$2.50"} <= set(texts(picture))


@given(days)
def test_no_bar_leaves_the_picture(these):
    _, picture = PICTURE.fullmatch(cost_plot(these)).groups()
    svg = ElementTree.fromstring(b64decode(picture))  # noqa: S314 - our own text
    width, height = float(svg.attrib["width"]), float(svg.attrib["height"])
    bars = [child for child in svg if child.tag.endswith("rect")]
    assert len(bars) == len(these)
    for bar in bars:
        assert float(bar.attrib["width"]) >= 0
        assert float(bar.attrib["x"]) + float(bar.attrib["width"]) < width
        assert float(bar.attrib["y"]) + float(bar.attrib["height"]) <= height


def texts(picture):
    svg = ElementTree.fromstring(b64decode(picture))  # noqa: S314 - our own text
    return [child.text for child in svg if child.tag.endswith("text")]
