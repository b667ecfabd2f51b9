"""Reports what a run has done last: one call in its loop.

    with reporting_progress() as progress:
        for batch in data:
            ...
            progress.step()

`checkpointing()` does it as well: `ckpt.due()` is a step and `ckpt.save()` a save. The callbacks
for Lightning and Hugging Face also report the batches of an evaluation.
"""

import faulthandler
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Self

from gpu_core.adapters.files.progress_report import (
    ProgressReport,
    stacks_path,
    write_progress_report,
)
from gpu_core.decisions.checkpoints.report_labels import Label
from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.runtime.own_gpu import own_gpu_id
from gpu_core.runtime.pod_progress import PodProgress
from gpu_core.runtime.prefect_report import PrefectReport, prefect_report_of
from gpu_core.runtime.ranks import Ranks

_WRITTEN_EVERY_S = 1.0

# Enough for a median that a few long steps do not move.
_REMEMBERED = 64

_STACKS_SIGNAL = getattr(signal, "SIGUSR2", None)

# Handled until the process ends: without a handler, a signal that comes late would end it.
_dumps: set[Path] = set()


def reporting_progress(ranks: Ranks | None = None) -> "Progress":
    """The progress of the run that this process belongs to. Outside a run it reports nothing.

    Args:
        ranks: The processes that work together; by default this one alone works.
    """
    run, ranks = RunContext.from_environment(os.environ), ranks or Ranks()
    return Progress(run, ranks, prefect=prefect_report_of(run))


class Progress:
    """Notes steps, and writes them down once a second. `reporting_progress()` makes one.

    Args:
        run: Whose progress; None outside a run.
        ranks: Which of the processes this is.
        clock: Seconds that only ever grow.
        prefect: Reports to a worker that shares no folder; None: the worker does.
    """

    def __init__(
        self,
        run: RunContext | None,
        ranks: Ranks,
        clock: Callable[[], float] = time.monotonic,
        prefect: PrefectReport | None = None,
    ) -> None:
        self._prefect = prefect
        has_folder = run is not None and run.run_dir is not None
        self._run_dir = Path(run.run_dir) if has_folder and run and run.run_dir else None
        self._pod = PodProgress(self._run_dir)
        self._is_reporting = self._run_dir is not None or prefect is not None
        self._clock = clock
        self._intervals: deque[float] = deque(maxlen=_REMEMBERED)
        self._longest_s: float | None = None
        self._stepped_s: float | None = None
        self._written_s = 0.0
        self._report = ProgressReport(
            attempt_id="" if run is None else run.attempt_id,
            rank=ranks.rank,
            ranks=ranks.count,
            pid=os.getpid(),
            progressed_at=datetime.now(UTC),
            node_rank=_node_rank(os.environ),
        )

    def __enter__(self) -> Self:
        """Begin to report."""
        self.start()
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _exception: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """The loop is over."""
        self.close()

    def start(self) -> None:
        """Write the first report, and dump stacks when a worker asks for them."""
        if not self._is_reporting:
            return
        folder, rank = self._run_dir, self._report.rank
        self._note(dumps_stacks=folder is not None and _dump_on_signal(stacks_path(folder, rank)))
        self._write()
        if self._prefect is not None:
            self._prefect.follow(self._labels)

    def close(self) -> None:
        """The loop is over: what comes after it has no steps."""
        if not self._is_reporting:
            return
        self._note(phase="ended")
        self._write()
        if self._prefect is not None:
            self._prefect.unfollow()
            self._prefect.close()

    def step(self) -> None:
        """A step was done. Cheap enough for every step: a clock, and a small file once a second."""
        if not self._is_reporting:
            return
        now_s = self._clock()
        if self._stepped_s is not None:
            took_s = now_s - self._stepped_s
            self._intervals.append(took_s)
            self._longest_s = took_s if self._longest_s is None else max(self._longest_s, took_s)
        self._stepped_s = now_s
        has_phase = self._report.phase is not None
        self._report = replace(
            self._report, steps=self._report.steps + 1, progressed_at=datetime.now(UTC), phase=None
        )
        if has_phase or now_s - self._written_s >= _WRITTEN_EVERY_S:
            self._write()

    def evaluated(self) -> None:
        """A batch of an evaluation was done: progress, and no step of the training."""
        if not self._is_reporting:
            return
        self._stepped_s = None
        is_new = self._report.phase != "evaluating"
        self._note(phase="evaluating")
        if is_new or self._clock() - self._written_s >= _WRITTEN_EVERY_S:
            self._write()

    def used(self) -> None:
        """A request came, or a person did something: the run is not idle."""
        if not self._is_reporting:
            return
        self._report = replace(self._report, used_at=datetime.now(UTC))
        if self._clock() - self._written_s >= _WRITTEN_EVERY_S:
            self._write()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Note that the work in this block takes its time, and is no step."""
        if not self._is_reporting:
            yield
            return
        self._note(phase=name)
        self._write()
        try:
            yield
        finally:
            self._stepped_s = None
            self._note(phase=None)
            self._write()

    def _note(self, **changes: object) -> None:
        self._report = replace(
            self._report,
            progressed_at=datetime.now(UTC),
            **changes,  # type: ignore[arg-type] # names of its own fields
        )

    def _write(self) -> None:
        if not self._is_reporting:
            return
        self._written_s = self._clock()
        if self._report.gpu_id is None:  # each thread computes on a GPU of its own
            self._report = replace(self._report, gpu_id=own_gpu_id(os.environ))
        if self._run_dir is not None:
            write_progress_report(self._run_dir, self._current())

    def _labels(self) -> dict[str, Label]:
        """The labels that this rank sends to a worker that shares no folder. Any thread may ask."""
        return self._pod.labels(self._current(), datetime.now(UTC))

    def _current(self) -> ProgressReport:
        """Any thread may ask: the loop may add an interval meanwhile."""
        intervals = tuple(self._intervals.copy())
        return replace(
            self._report,
            median_step_s=None if len(intervals) < 3 else median(intervals),
            longest_step_s=self._longest_s,
        )


def _node_rank(environment: Mapping[str, str]) -> int | None:
    """The number of this node in its gang, from 0; None: nothing says so."""
    text = environment.get("NODE_RANK", "")
    return int(text) if text.isascii() and text.isdecimal() else None


def _dump_on_signal(path: Path) -> bool:
    """Will the signal write the stacks into this file? False: it has another use here."""
    if path in _dumps:
        return True
    if _STACKS_SIGNAL is None or signal.getsignal(_STACKS_SIGNAL) is not signal.SIG_DFL:
        return False
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError:
        return False
    faulthandler.register(_STACKS_SIGNAL, file=descriptor, all_threads=True)
    _dumps.add(path)
    return True
