"""Samples the GPUs of this machine, and holds those that are not well."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from gpu_core.adapters.nvml import GpuDiscoveryError, GpuSampler
from gpu_core.adapters.nvml.sample_source import SampleSource
from gpu_core.decisions.model.errors import sentences
from gpu_core.decisions.model.gpu_health import HealthVerdict
from gpu_core.decisions.telemetry.health import GpuHealth, HealthFinding
from gpu_core.decisions.telemetry.history import GpuWindow, MinuteHistory
from gpu_core.decisions.telemetry.samples import GpuSample
from gpu_core.decisions.telemetry.summary import BUSY_RATIO
from gpu_core.worker.process.gpus.held import HeldGpus

_log = logging.getLogger("prefect.gpu.devices")

# NVML that failed is initialized anew: that takes seconds, and other programs wait for it.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 300.0

_RECENT = timedelta(hours=1)

# Of 16 GPUs for a day, should the worker not take them.
_MOST_WINDOWS = 16 * 24 * 60


class HealthWatch:
    """Watches GPUs in a thread of its own, because a driver may hang.

    Without samples nothing is found: a sampler that fails holds no GPU and ends no run.

    Args:
        gpu_ids: The GPUs of the machine, by UUID; empty: nothing is watched.
        held: The GPUs that are held.
        wake: Called in that thread when a GPU is held.
        interval_s: Between two samples, above 0.
        sampler: Asks NVML.
    """

    def __init__(
        self,
        gpu_ids: Collection[str],
        held: HeldGpus,
        wake: Callable[[], None],
        interval_s: float,
        sampler: SampleSource | None = None,
    ) -> None:
        self._held = held
        self._wake = wake
        self._interval_s = interval_s
        self._sampler = sampler or GpuSampler(gpu_ids)
        self._health = {gpu_id: GpuHealth(gpu_id=gpu_id) for gpu_id in gpu_ids}
        self._runs: Mapping[str, frozenset[str]] = {}
        self.samples: tuple[GpuSample, ...] = ()
        """The last sample of each; empty: the driver does not answer."""
        self._history = MinuteHistory()
        self._windows: deque[GpuWindow] = deque(maxlen=_MOST_WINDOWS)
        self.recent: tuple[GpuWindow, ...] = ()
        """The minutes of the last hour that have ended; any thread may read them."""
        self._unwritten: set[str] = set()
        self._is_failing = False
        self._pause_s = _FIRST_PAUSE_S
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch, if there is anything to watch."""
        if self._health and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="gpu health", daemon=True)
            self._thread.start()

    def set_runs(self, runs: Collection[Collection[str]]) -> None:
        """Note which GPUs compute together, run by run."""
        self._runs = {gpu_id: frozenset(run) for run in runs for gpu_id in run}

    def verdicts(self) -> dict[str, HealthVerdict]:
        """The verdict on each GPU, by the findings since the worker started."""
        return {gpu_id: health.verdict for gpu_id, health in [*self._health.items()]}

    def take_windows(self) -> tuple[GpuWindow, ...]:
        """The minutes that have ended since the last call; any thread may ask."""
        return tuple(self._windows.popleft() for _ in range(len(self._windows)))

    def close(self) -> None:
        """Stop watching; a driver that hangs keeps its thread."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self._try_to_look()):
            pass
        self._sampler.close()

    def _try_to_look(self) -> float:
        try:
            return self.look(datetime.now(UTC))
        except Exception:
            _log.exception("Failed to check the health of local GPUs. Retrying in 5 minutes.")
            return _LONGEST_PAUSE_S

    def look(self, now: datetime) -> float:
        """Take one sample of each GPU, and hold what is not well. Seconds until the next one."""
        try:
            samples = self._sampler.sample(now)
        except GpuDiscoveryError as error:
            return self._note_failure(error)
        if self._is_failing:
            _log.warning("Resumed sampling of local GPUs")
        self._is_failing, self._pause_s = False, _FIRST_PAUSE_S
        self.samples = samples
        self._history, ended = self._history.with_samples(samples)
        self._windows.extend(ended)
        if ended:
            first = now - _RECENT
            self.recent = (*(each for each in self.recent if each.minute >= first), *ended)
        held = self._held.read()
        for sample in samples:
            # A MIG instance is as well as its GPU.
            if sample.gpu_id in self._health:
                self._judge(sample, held, are_peers_busy=self._are_peers_busy(sample, samples))
        return self._interval_s

    def _are_peers_busy(self, sample: GpuSample, samples: Collection[GpuSample]) -> bool:
        """Do all other GPUs of its run compute? Not where one of them is unknown."""
        peers = self._runs.get(sample.gpu_id, frozenset()) - {sample.gpu_id}
        ratios = [each.utilization_ratio for each in samples if each.gpu_id in peers]
        busy = sum(ratio is not None and ratio >= BUSY_RATIO for ratio in ratios)
        return bool(peers) and busy == len(peers)

    def _judge(
        self, sample: GpuSample, held: Collection[str], *, are_peers_busy: bool = False
    ) -> None:
        gpu_id = sample.gpu_id
        before = self._health[gpu_id]
        is_unwritten = gpu_id in self._unwritten
        if not before.verdict.is_usable and gpu_id not in held and not is_unwritten:
            # A person has freed it: what was found is taken back.
            before = GpuHealth(gpu_id=gpu_id)
        after = self._health[gpu_id] = before.with_sample(sample, are_peers_busy=are_peers_busy)
        if after.finding is not None and (is_unwritten or after.finding is not before.finding):
            self._act(gpu_id, after.finding)

    def _act(self, gpu_id: str, finding: HealthFinding) -> None:
        if finding.verdict is HealthVerdict.DEGRADED:
            _log.warning("%s is degraded: %s", gpu_id, sentences(finding.reason, finding.remedy))
            return
        try:
            self._held.hold(gpu_id, finding)
        except OSError as error:
            if gpu_id not in self._unwritten:
                why = sentences(str(error), "the worker retries with the next sample")
                _log.error("Failed to hold %s: %s", gpu_id, why)
            self._unwritten.add(gpu_id)
            return
        self._unwritten.discard(gpu_id)
        _log.error(
            "%s is held (%s): %s",
            *(gpu_id, finding.verdict),
            sentences(
                finding.reason,
                f"{finding.remedy}, then free it with `prefect-gpu gpus free {gpu_id}`",
            ),
        )
        with suppress(RuntimeError):  # the loop that it wakes is closed
            self._wake()

    def _note_failure(self, error: GpuDiscoveryError) -> float:
        if not self._is_failing:
            _log.warning("Unable to sample local GPUs: %s", error)
        self._is_failing, self.samples = True, ()
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return pause_s
