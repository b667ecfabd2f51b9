"""Sample the GPUs of one attempt for as long as its launcher lives.

    python -P attempt_sampler.py RUN_DIR INTERVAL_S GPU_ID...

The launcher starts it with the run and kills it at the end, so that after each sample
`RUN_DIR/gpus.json` says what all samples add up to. A program of its own, because a driver that
hangs must stop neither the run nor the worker. It imports little: no Prefect.
"""

import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from gpu_core.adapters.files.gpu_report import write_gpu_report
from gpu_core.adapters.host.process_load import ProcessLoad
from gpu_core.adapters.nvml.driver import GpuDiscoveryError
from gpu_core.adapters.nvml.sampler import GpuSampler
from gpu_core.decisions.telemetry.samples import GpuSample
from gpu_core.decisions.telemetry.summary import GpuTotals
from gpu_core.decisions.telemetry.virtual_gpus import VIRTUAL_PREFIX, virtual_samples

# A driver that fails is initialised anew: that takes seconds, and other programs wait for it.
_PAUSE_S = 60.0


class Source(Protocol):
    """Where samples come from."""

    def sample(self, now: datetime) -> tuple[GpuSample, ...]:
        """What do the GPUs do?

        Raises:
            GpuDiscoveryError: The driver fails.
        """
        ...


class _VirtualGpus:
    """Makes samples of virtual GPUs up from the processor time of the launcher's descendants."""

    def __init__(self, gpu_ids: Sequence[str], launcher: int) -> None:
        self._gpu_ids = gpu_ids
        self._load = ProcessLoad(launcher, without=os.getpid())

    def sample(self, now: datetime) -> tuple[GpuSample, ...]:
        return virtual_samples(self._gpu_ids, self._load.cores(), now)


def main(run_dir: Path, interval_s: float, gpu_ids: Sequence[str]) -> None:
    """Sample until the launcher is gone."""
    launcher = os.getppid()
    is_virtual = all(gpu_id.startswith(VIRTUAL_PREFIX) for gpu_id in gpu_ids)
    source: Source = _VirtualGpus(gpu_ids, launcher) if is_virtual else GpuSampler(gpu_ids)
    totals = {each: GpuTotals(gpu_id=each, is_simulated=is_virtual) for each in gpu_ids}
    while os.getppid() == launcher:
        began_s = time.monotonic()
        pause_s, error = interval_s, None
        try:
            for sample in source.sample(datetime.now(UTC)):
                if sample.gpu_id in totals:  # a MIG instance of it has no total of its own
                    totals[sample.gpu_id] = totals[sample.gpu_id].with_sample(sample)
        except GpuDiscoveryError as failure:
            pause_s, error = _PAUSE_S, str(failure)
        found = (each.summary() for each in totals.values())
        write_gpu_report(run_dir, [each for each in found if each is not None], error)
        _wait(launcher, began_s + pause_s)


def _wait(launcher: int, until_s: float) -> None:
    while os.getppid() == launcher and (left_s := until_s - time.monotonic()) > 0:
        time.sleep(min(left_s, 1.0))


if __name__ == "__main__":
    # What it writes would stand in the run's output.
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - until the end
    main(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
