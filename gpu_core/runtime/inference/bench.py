"""Measure configurations of inference on what this run has."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gpu_core.decisions.model.errors import GpuSchedulingError, InvalidInput
from gpu_core.decisions.optimization.experiments.plans import turns
from gpu_core.decisions.optimization.experiments.trial import (
    Measured,
    Repeat,
    Setting,
    Timed,
    Trial,
    repeat_of,
)
from gpu_core.runtime.inference.workload import Unsupported

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""On a CPU the device is one core, which several processes can then share."""


class MeasurementFailed(GpuSchedulingError):
    """A process that measures has ended; its last lines are in the run's log."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Processes that wait to measure, all with the same workload on the same device."""

    device: str
    what: str
    """The workload in a few words."""
    processes: tuple["subprocess.Popen[str]", ...]

    def measure(self, setting: Setting, seed: int, seconds: float) -> Repeat:
        """Measure one repeat of this configuration.

        Args:
            setting: Its processes are at most those of the bench.
            seed: Of the inputs.
            seconds: How long all processes work, over 0.

        Raises:
            Unsupported: The device does not compute in this precision.
            MeasurementFailed: A process has ended.
        """
        used = self.processes[: setting.processes]
        asked = {
            "precision": setting.precision,
            "batch_size": setting.batch_size,
            "seconds": seconds,
        }
        for number, process in enumerate(used):
            _send(process, {**asked, "seed": seed * len(self.processes) + number})
        readiness = [_receive(process) for process in used]
        refusals = [each["unsupported"] for each in readiness if "unsupported" in each]
        for process in used:
            _send(process, {"go": not refusals})
        if refusals:
            raise Unsupported(refusals[0])
        return repeat_of([_timed(_receive(process)) for process in used])


_MOST_S = 3600


@contextmanager
def bench(workload: str, processes: int = 1) -> Iterator[Bench]:
    """Start the processes; they end with the block.

    Args:
        workload: `module:function` of the function that makes it.
        processes: How many use the device at the same time, at most.

    Raises:
        MeasurementFailed: A process could not start.
    """
    command = [sys.executable, "-m", f"{__package__}.process", workload, str(_last_core())]
    started = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **_ONE_THREAD},
        )
        for _ in range(processes)
    ]
    try:
        described = [_receive(process) for process in started]
        yield Bench(described[0]["device"], described[0]["what"], tuple(started))
    finally:
        _end(started)


def measured(
    on: Bench,
    settings: Sequence[Setting],
    micro_usd_per_hour: int,
    *,
    repeats: int,
    seconds: float,
) -> Measured:
    """Measure each configuration as often, in turns.

    Args:
        micro_usd_per_hour: What the device costs.
        repeats: 1 or more.
        seconds: How long each takes, over 0.

    Raises:
        InvalidInput: A number is out of range.
        MeasurementFailed: A process has ended.
    """
    if repeats < 1:
        raise InvalidInput("repeats", "is out of range", got=repeats, allowed="1 or more")
    if not 0 < seconds <= _MOST_S:
        raise InvalidInput(
            "seconds", "is out of range", got=seconds, allowed=f"more than 0, up to {_MOST_S}"
        )
    found: dict[Setting, list[Repeat]] = defaultdict(list)
    not_run: dict[Setting, str] = {}
    for turn, setting in turns(settings, repeats):
        if setting in not_run:
            continue
        try:
            repeat = on.measure(setting, turn, seconds)
        except Unsupported as why:
            not_run[setting] = str(why)
        else:
            found[setting].append(repeat)
    trials = tuple(
        Trial(
            setting=setting,
            micro_usd_per_hour=micro_usd_per_hour,
            repeats=tuple(found[setting]),
        )
        for setting in settings
        if setting in found
    )
    return Measured(device=on.device, what=on.what, trials=trials, not_run=tuple(not_run.items()))


def _end(started: Sequence["subprocess.Popen[str]"]) -> None:
    for process in started:
        process.kill()
    for process in started:
        process.communicate()


def _last_core() -> int:
    """The first core is where a system handles most interrupts."""
    if hasattr(os, "sched_getaffinity"):
        return max(os.sched_getaffinity(0))
    return 0


def _send(process: "subprocess.Popen[str]", message: dict[str, Any]) -> None:
    assert process.stdin is not None  # noqa: S101 - it was started with a pipe
    try:
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise _failed(process) from None


def _receive(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None  # noqa: S101 - it was started with a pipe
    line = process.stdout.readline()
    if not line:
        raise _failed(process)
    found: dict[str, Any] = json.loads(line)
    return found


def _failed(process: "subprocess.Popen[str]") -> MeasurementFailed:
    return MeasurementFailed(f"a benchmark process exited with status {process.wait()}")


def _timed(fields: dict[str, Any]) -> Timed:
    return Timed(**{**fields, "batches_s": tuple(fields["batches_s"])})
