"""The second half of a trace is what no constant of the strategies comes from."""

import json
from pathlib import Path

from benchmarks.spot import TICKS, ZONES, recorded


def test_the_halves_of_a_file_have_no_tick_in_common(tmp_path: Path) -> None:
    """Spot is up in the first 1,950 ticks, and away in the other 50."""
    (tmp_path / "spot").mkdir()
    text = json.dumps({"metadata": {"gap_seconds": 600}, "data": [1] * TICKS + [0] * 50})
    for zone in ZONES.values():
        (tmp_path / "spot" / f"{zone}.json").write_text(text)
    for name in ZONES:
        (first,) = recorded(tmp_path)[name]
        (second,) = recorded(tmp_path, is_second_half=True)[name]
        assert first.nodes_up == (1,) * TICKS
        assert second.nodes_up == (0,) * 50
