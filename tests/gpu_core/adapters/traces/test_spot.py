"""Spot traces: what is read, and what is refused with its field."""

import json
from pathlib import Path

import pytest

from gpu_core.adapters.traces.spot import read_spot_trace
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.simulation.spot.trace import SpotTrace


def test_one_means_up(tmp_path: Path) -> None:
    """The published polarity; what else the file holds is left alone."""
    path = tmp_path / "zone.json"
    path.write_text(
        json.dumps({"metadata": {"gap_seconds": 195, "x": 1}, "data": [1, 0, 4], "prices": [0.9]})
    )
    assert read_spot_trace(path) == SpotTrace(name="zone", tick_s=195, nodes_up=(1, 0, 4))


@pytest.mark.parametrize(
    ("text", "want_message"),
    [
        pytest.param("[1, 0", "is not valid JSON", id="no JSON"),
        pytest.param("[1, 0]", "is not a mapping", id="no object"),
        pytest.param('{"data": [1]}', "metadata is missing", id="no metadata"),
        pytest.param(
            '{"metadata": {"gap_seconds": 0}, "data": [1]}',
            "metadata.gap_seconds is too small",
            id="ticks without length",
        ),
        pytest.param(
            '{"metadata": {"gap_seconds": 60}, "data": []}', "data has too few items", id="no ticks"
        ),
        pytest.param(
            '{"metadata": {"gap_seconds": 60}, "data": [1, -1]}',
            "data.1 is too small",
            id="fewer than no nodes",
        ),
        pytest.param(
            '{"metadata": {"gap_seconds": 60}, "data": [1, "0"]}',
            "data.1 is not a whole number",
            id="text",
        ),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str, want_message: str) -> None:
    """The file and the field."""
    path = tmp_path / "zone.json"
    path.write_text(text)
    with pytest.raises(InvalidInput) as refused:
        read_spot_trace(path)
    assert str(refused.value).startswith(str(path))
    assert want_message in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Named, with what a file should hold."""
    with pytest.raises(InvalidInput, match=r"absent\.json does not exist.*gap_seconds"):
        read_spot_trace(tmp_path / "absent.json")
