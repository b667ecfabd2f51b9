"""Sample the GPUs of one attempt for as long as its launcher lives.

    python -P attempt_sampler.py RUN_DIR INTERVAL_S GPU_ID...

The launcher starts it with the run and kills it at the end, so that after each sample
`RUN_DIR/gpus.json` says what all samples add up to, and `RUN_DIR/activity.json` since when the
GPUs and the run's processes are quiet. A program of its own, because a driver that
hangs must stop neither the run nor the worker. It imports little: no Prefect.
"""

import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from gpu_core.adapters.files.activity_report import write_activity_report
from gpu_core.adapters.files.gpu_report import write_gpu_report
from gpu_core.adapters.host.process_load import HostUse, ProcessLoad
from gpu_core.adapters.host.process_memory import memory_bytes
from gpu_core.adapters.nvml.driver import GpuDiscoveryError
from gpu_core.adapters.nvml.sample_source import SampleSource
from gpu_core.adapters.nvml.sampler import GpuSampler
from gpu_core.decisions.model.host_summary import HostSummary
from gpu_core.decisions.telemetry.activity import RunActivity
from gpu_core.decisions.telemetry.host_totals import HostTotals
from gpu_core.decisions.telemetry.samples import GpuSample
from gpu_core.decisions.telemetry.summary import GpuTotals
from gpu_core.decisions.telemetry.virtual_gpus import VIRTUAL_PREFIX, virtual_samples

# A driver that fails is initialized anew: that takes seconds, and other programs wait for it.
_PAUSE_S = 60.0

# To find the processes of a run, those of the whole machine are read: 5 to 10 ms.
_HOST_EVERY_S = 10.0


class _VirtualGpus:
    """Makes samples of virtual GPUs up from the processor time of the launcher's descendants."""

    def __init__(self, gpu_ids: Sequence[str], launcher: int) -> None:
        self._gpu_ids = gpu_ids
        self._load = ProcessLoad(launcher, without=os.getpid())

    def sample(self, now: datetime) -> tuple[GpuSample, ...]:
        return virtual_samples(self._gpu_ids, self._load.cores(), now)

    def close(self) -> None:
        """There is no driver."""


class _Host:
    """The resource use of the run's processes, read every 10 s."""

    def __init__(self, launcher: int) -> None:
        self._launcher = launcher
        self._load = ProcessLoad(launcher, without=os.getpid())
        self._totals = HostTotals()
        self._read_s = -_HOST_EVERY_S
        self._use = HostUse()

    def use(self, now_s: float) -> HostUse:
        if now_s - self._read_s >= _HOST_EVERY_S:
            self._use, self._read_s = self._load.use(), now_s
            memory = memory_bytes(self._launcher, without=os.getpid())
            self._totals = self._totals.with_sample(self._use.cores, memory)
        return self._use

    def summary(self) -> HostSummary | None:
        return self._totals.summary()


class _Recorder:
    """Adds up what the GPUs of one run do, and writes it down."""

    def __init__(self, run_dir: Path, gpu_ids: Sequence[str], *, is_virtual: bool) -> None:
        self._run_dir = run_dir
        self._is_virtual = is_virtual
        self._totals = {each: GpuTotals(gpu_id=each, is_simulated=is_virtual) for each in gpu_ids}
        self._activity = RunActivity.of(gpu_ids, datetime.now(UTC), has_host=True)

    def add(self, samples: Sequence[GpuSample], at: datetime, host: HostUse) -> None:
        # A MIG instance of one of the GPUs has no total of its own.
        own = {sample.gpu_id: sample for sample in samples if sample.gpu_id in self._totals}
        for gpu_id, sample in own.items():
            self._totals[gpu_id] = self._totals[gpu_id].with_sample(sample)
        self._activity = self._activity.with_samples(
            own, at, cores=host.cores, io_bytes_per_s=host.io_bytes_per_s
        )

    def write(self, error: str | None, host: HostSummary | None) -> None:
        found = (each.summary() for each in self._totals.values())
        summaries = [each for each in found if each is not None]
        write_gpu_report(self._run_dir, summaries, error, host)
        if not self._is_virtual:  # nothing is decided from numbers that are made up
            write_activity_report(self._run_dir, self._activity)


def main(run_dir: Path, interval_s: float, gpu_ids: Sequence[str]) -> None:
    """Sample until the launcher is gone."""
    # The launcher may have been killed while this program was loaded: its parent is another then.
    launcher = int(os.environ["PREFECT_GPU_LAUNCHER_PID"])
    is_virtual = all(gpu_id.startswith(VIRTUAL_PREFIX) for gpu_id in gpu_ids)
    source: SampleSource = _VirtualGpus(gpu_ids, launcher) if is_virtual else GpuSampler(gpu_ids)
    host, recorder = _Host(launcher), _Recorder(run_dir, gpu_ids, is_virtual=is_virtual)
    while os.getppid() == launcher:
        began_s, now = time.monotonic(), datetime.now(UTC)
        samples: tuple[GpuSample, ...] = ()
        pause_s, error = interval_s, None
        try:
            samples = source.sample(now)
        except GpuDiscoveryError as failure:
            pause_s, error = _PAUSE_S, str(failure)
        use = host.use(began_s)
        recorder.add(samples, now, HostUse() if is_virtual else use)
        recorder.write(error, host.summary())
        _wait(launcher, began_s + pause_s)


def _wait(launcher: int, until_s: float) -> None:
    while os.getppid() == launcher and (left_s := until_s - time.monotonic()) > 0:
        time.sleep(min(left_s, 1.0))


if __name__ == "__main__":
    # What it writes would stand in the run's output.
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - until the end
    main(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
