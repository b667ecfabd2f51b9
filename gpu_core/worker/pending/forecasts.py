"""Expected starts of waiting runs: learned from observed starts, and kept over restarts."""

import json
import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from gpu_core.adapters.files.atomic_file import make_folder, replace_file
from gpu_core.decisions.model.cluster import Node
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.reasons import Explanation
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.scheduling.forecasting.queue_features import (
    START_RATE_WINDOW_S,
    gpus_by_type,
    queue_features,
    waits_for,
    with_forecast,
)
from gpu_core.decisions.scheduling.forecasting.start_times import QueueFeatures, StartForecaster

_log = logging.getLogger("prefect.gpu.forecasts")


class Forecasts:
    """The forecasters of one pool on this machine, one for each type of GPU.

    Args:
        path: Where what was learned is kept.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._totals = gpus_by_type(())
        self._forecasters = _read(path)
        self._first_seen: dict[str, tuple[datetime, QueueFeatures]] = {}
        self._started: deque[tuple[datetime, str, int]] = deque()
        self._is_saved = True

    def observe(self, nodes: Iterable[Node]) -> None:
        """Learn which GPUs there are now."""
        self._totals = gpus_by_type(nodes)

    def started(self, workloads: Iterable[Workload], now: datetime) -> None:
        """Learn that these start now."""
        for workload in workloads:
            gpu_type = waits_for(workload, self._totals)
            if gpu_type is None:
                continue
            self._started.append((now, gpu_type, workload.shape.total_gpus))
            # A run that starts at once had no forecast: only waits teach how long waits are.
            seen = self._first_seen.pop(workload.workload_id, None)
            if seen is not None:
                seen_at, features = seen
                forecaster = self._forecasters.setdefault(gpu_type, StartForecaster())
                forecaster.observe(features, max(0.0, (now - seen_at).total_seconds()))
                self._is_saved = False

    def save(self) -> None:
        """Keep what was learned since the last time for the next worker."""
        if self._is_saved:
            return
        states = {name: forecaster.state() for name, forecaster in self._forecasters.items()}
        make_folder(self._path.parent)
        replace_file(self._path, json.dumps(states).encode())
        self._is_saved = True

    def with_expected_starts(
        self, explanations: Sequence[Explanation], workloads: Mapping[str, Workload], now: datetime
    ) -> tuple[Explanation, ...]:
        """The same explanations, with expected starts where enough was learned.

        Args:
            explanations: Of all that wait, in the order of the queue.
            workloads: By workload id.
            now: When they were planned.
        """
        line = [workloads[e.workload_id] for e in explanations if e.position > 0]
        features = queue_features(line, self._totals, self._started_gpus(now), now)
        self._first_seen = {
            key: self._first_seen.get(key, (now, seen)) for key, seen in features.items()
        }
        return tuple(
            self._with_expected_start(
                explanation, features.get(explanation.workload_id), workloads, now
            )
            for explanation in explanations
        )

    def _with_expected_start(
        self,
        explanation: Explanation,
        features: QueueFeatures | None,
        workloads: Mapping[str, Workload],
        now: datetime,
    ) -> Explanation:
        gpu_type = waits_for(workloads[explanation.workload_id], self._totals)
        forecaster = None if gpu_type is None else self._forecasters.get(gpu_type)
        if features is None or forecaster is None:
            return explanation
        forecast = forecaster.forecast(features)
        return explanation if forecast is None else with_forecast(explanation, forecast, now)

    def _started_gpus(self, now: datetime) -> dict[str, int]:
        while self._started and (now - self._started[0][0]).total_seconds() > START_RATE_WINDOW_S:
            self._started.popleft()
        gpus: dict[str, int] = {}
        for _, gpu_type, count in self._started:
            gpus[gpu_type] = gpus.get(gpu_type, 0) + count
        return gpus


def _read(path: Path) -> dict[str, StartForecaster]:
    """The forecasts of an earlier worker. Unreadable parts are learned again."""
    try:
        states = json.loads(path.read_bytes())
        return {name: StartForecaster.from_state(state) for name, state in states.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, InvalidInput) as error:
        _log.warning("Failed to load forecast history from %s: %s", path, error)
        return {}
