"""Scores alerts as the Numenta Anomaly Benchmark does, on its cost series.

Lavin and Ahmad, "Evaluating Real-time Anomaly Detection Algorithms: the Numenta Anomaly Benchmark",
2015. The earliest alert in a labeled window counts, the more the earlier it is; an alert outside
costs 0.11, less shortly after a window; a missed window costs 1. The first 15% of a series, at
most 750 points, are for learning. 0 is silence, 100 an alert at each window's first point alone.
"""

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import exp
from pathlib import Path

PROFILES = {"standard": (0.11, 1.0), "few false": (0.22, 1.0), "few missed": (0.11, 2.0)}
"""What a false alert and a missed window cost."""

_MOST_LEARNING = 750


@dataclass(frozen=True)
class LabeledSeries:
    """A published series, and where people saw an anomaly.

    Attributes:
        name: Its file.
        values: One for each hour.
        windows: The first and the last index of each labeled window, in order.
    """

    name: str
    values: tuple[float, ...]
    windows: tuple[tuple[int, int], ...]

    @property
    def learning(self) -> int:
        """How many points at the start are not scored?"""
        return min(int(0.15 * len(self.values)), _MOST_LEARNING)


def read_series(folder: Path) -> list[LabeledSeries]:
    """All series of a folder, by its `windows.json`."""
    labels = json.loads((folder / "windows.json").read_text())
    by_name = {key.rsplit("/", 1)[-1]: windows for key, windows in labels.items()}
    return [_read(path, by_name[path.name]) for path in sorted(folder.glob("*.csv"))]


def _read(path: Path, windows: Iterable[Sequence[str]]) -> LabeledSeries:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    moments = [datetime.fromisoformat(row["timestamp"]) for row in rows]
    places = []
    for start, end in windows:
        first, last = datetime.fromisoformat(start), datetime.fromisoformat(end)
        inside = [n for n, moment in enumerate(moments) if first <= moment <= last]
        places.append((inside[0], inside[-1]))
    return LabeledSeries(path.name, tuple(float(row["value"]) for row in rows), tuple(places))


def normalized_score(
    series: Sequence[LabeledSeries],
    alerts_of: Callable[[LabeledSeries], Iterable[int]],
    profile: str = "standard",
) -> float:
    """How good are these alerts, from 0 for silence to 100?"""
    false_cost, missed_cost = PROFILES[profile]
    windows = sum(len(each.windows) for each in series)
    total = sum(_score(each, alerts_of(each), false_cost, missed_cost) for each in series)
    return 100 * (total + missed_cost * windows) / (windows * (1 + missed_cost))


def _score(
    series: LabeledSeries, alerts: Iterable[int], false_cost: float, missed_cost: float
) -> float:
    best = dict.fromkeys(series.windows, -missed_cost)
    false = 0.0
    for at in alerts:
        if at < series.learning:
            continue
        window = next((w for w in series.windows if w[0] <= at <= w[1]), None)
        if window is None:
            false += false_cost * _after(series.windows, at)
        else:
            width = window[1] - window[0] + 1
            worth = _sigmoid(-(window[1] - at + 1) / width) / _sigmoid(-1)
            best[window] = max(best[window], worth)
    return sum(best.values()) + false


def _after(windows: Sequence[tuple[int, int]], at: int) -> float:
    """From 0 just after a window down to -1."""
    before = [window for window in windows if window[1] < at]
    if not before:
        return -1.0
    first, last = before[-1]
    return _sigmoid((at - last) / (last - first))


def _sigmoid(position: float) -> float:
    return -1.0 if position > 3 else 2 / (1 + exp(5 * position)) - 1
