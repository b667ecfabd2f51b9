"""Checkpoints as a flow uses them: restore, is it time, save."""

import logging
import operator
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from gpu_core.adapters.checkpoints.open_store import open_store
from gpu_core.adapters.checkpoints.run_checkpoints import RunCheckpoints
from gpu_core.adapters.checkpoints.store import CheckpointStore
from gpu_core.adapters.files.run_files import (
    CheckpointReport,
    Notice,
    read_checkpoint_report,
    write_checkpoint_report,
)
from gpu_core.decisions.checkpoints.manifest import Manifest
from gpu_core.decisions.checkpoints.save_interval import NoticeAction, SaveInterval, answer_notice
from gpu_core.decisions.checkpoints.trust import (
    TRUSTS_CHECKSUMS,
    CheckpointTrust,
    checkpoint_trust,
)
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.runtime.notice import Notices, notices_of
from gpu_core.runtime.prefect_report import prefect_report_of
from gpu_core.runtime.progress import Progress
from gpu_core.runtime.ranks import Ranks
from gpu_core.runtime.save_clock import SaveSchedule
from gpu_core.runtime.saving import FATAL, Outcome, SavedCheckpoint, Saver, Taken
from gpu_core.runtime.snapshot import Snapshots, restored

_log = logging.getLogger(__name__)

State = TypeVar("State")

# The order of checkpoints as one number, which ranks can exchange.
_SEQUENCE_BITS = 40
_NO_CHECKPOINT = -1


def checkpointing(
    *,
    store: CheckpointStore | str | None = None,
    interval_s: float | None = None,
    keep: int | None = None,
    background: bool = False,
    ranks: Ranks | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> "Checkpointing":
    """The checkpoints of the run that this process belongs to.

        with checkpointing() as ckpt:
            state = ckpt.restore(default)
            for step in range(state.step, steps):
                ...
                if ckpt.due():
                    ckpt.save(state)

    Outside a run of a GPU work pool, and in a run without a `checkpoint_uri`, the same flow works
    and saves nothing.

    Args:
        store: Where the checkpoints lie, or its address; the run's `checkpoint_uri` by default.
        interval_s: Seconds between saves, 0 or more; by default what the worker says, and where
            that is `auto`, what suits the measured saves and the life of the capacity.
        keep: How many checkpoints stay, 1 or more; by default what the worker says.
        background: Let the training continue while a checkpoint is written. Needs memory for one
            more copy of the state.
        ranks: The processes that save together, each its part; by default this one alone saves.
        clock: Seconds that only ever grow.

    Raises:
        InvalidInput: An argument is out of range, the store's address is none, or the policy
            requires signed checkpoints and the run has no key.
        StoreUnreachable: The store needs what is missing here, such as boto3 or an AWS profile.
    """
    if interval_s is not None and not interval_s >= 0:
        raise InvalidInput("interval_s", "is out of range", got=interval_s, allowed="0 or more")
    if keep is not None and keep < 1:
        raise InvalidInput("keep", "is out of range", got=keep, allowed="1 or more")
    run = RunContext.from_environment(os.environ)
    ranks = ranks or Ranks()
    trust = TRUSTS_CHECKSUMS if run is None else _trust(run)
    checkpoints = None if run is None else _checkpoints_of(run, store, keep, ranks, trust)
    return Checkpointing(
        run, checkpoints, interval_s=interval_s, background=background, ranks=ranks, clock=clock
    )


def _trust(run: RunContext) -> CheckpointTrust:
    return checkpoint_trust(
        os.environ,
        refuses_pickles=run.refuses_pickles,
        requires_signatures=run.requires_signatures,
    )


def _checkpoints_of(
    run: RunContext,
    store: CheckpointStore | str | None,
    keep: int | None,
    ranks: Ranks,
    trust: CheckpointTrust,
) -> RunCheckpoints | None:
    store = store if store is not None else run.checkpoint_uri
    if store is None:
        return None
    return RunCheckpoints(
        open_store(store) if isinstance(store, str) else store,
        flow_run_id=run.flow_run_id,
        attempt=run.attempt,
        keep=run.checkpoints_kept if keep is None else keep,
        trust=trust,
        rank=ranks.rank,
        ranks=ranks.count,
        verifies_all_shards=ranks.exchange is None,
    )


class Checkpointing:
    """Restore, and save when it is due. `checkpointing()` makes one.

    Not for several threads at once. In an async flow, call `await asyncio.to_thread(ckpt.save,
    state)`.
    """

    def __init__(
        self,
        run: RunContext | None,
        checkpoints: RunCheckpoints | None,
        *,
        interval_s: float | None,
        background: bool,
        ranks: Ranks,
        clock: Callable[[], float],
    ) -> None:
        # Rank 0 speaks for all.
        self._run_dir = run.run_dir if run is not None and ranks.rank == 0 else None
        self._attempt = 0 if run is None else run.attempt
        self._checkpoints = checkpoints
        self._background = background
        self._ranks = ranks
        self._clock = clock
        self._schedule = SaveSchedule(run, interval_s, clock)
        self._snapshots = Snapshots(refuses_pickles=run is not None and run.refuses_pickles)
        self._saver = None if checkpoints is None else Saver(checkpoints, self._report_saved, clock)
        can_save = checkpoints is not None
        self._notices = Notices(()) if run is None else notices_of(run, can_save=can_save)
        self._answered: Notice | None = None
        self._report = CheckpointReport(attempt_id="" if run is None else run.attempt_id)
        self._prefect = prefect_report_of(run)
        self._report_lock = threading.Lock()
        self.progress = Progress(run, ranks, clock, self._prefect)
        """The report of this process's steps to the worker, made by `due` and `save`."""
        self._has_warned = False

    def __enter__(self) -> Self:
        """Begin: earlier attempts can no longer save, and the worker knows that this one can.

        Raises:
            StaleAttempt: A later attempt has started already.
            StoreUnreachable: The checkpoint store cannot be used; StoreMisconfigured, which is one,
                where no other attempt could use it either.
            NotEnoughSpace: The store's disk cannot take one save.
        """
        if self._checkpoints is not None:
            self._checkpoints.claim()
            self._schedule.restart()
            self._report_to_worker(self._earlier_report() or self._report)
        self._notices.start()
        self.progress.start()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        _exception: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Wait for the save under way; what was saved stays until newer ones replace it.

        Raises:
            StaleAttempt: A later attempt has started, and the save under way was refused.
        """
        try:
            self.wait()
        except FATAL as error:
            if exception_type is None:
                raise
            _log.warning("The latest checkpoint was rejected: %s", error)
        finally:
            if self._saver is not None:
                self._saver.close()
            self._notices.close()
            self.progress.close()
            if self._prefect is not None:
                self._prefect.close()

    @property
    def notice(self) -> Notice | None:
        """The reason and the deadline of this run's termination; None: it need not end."""
        return self._notices.current()

    @property
    def interval(self) -> SaveInterval | None:
        """The current interval between two saves, and its reason; None: it is fixed."""
        return self._schedule.adapted()

    def restore(self, default: State) -> State:
        """The state of the newest checkpoint that is as it was written, or `default`.

        Where several ranks restore, all get their part of the same checkpoint.

        Raises:
            OSError, botocore.exceptions.ClientError: The store did not answer. To begin anew then
                would throw away what it holds.
            RanksDiffer: Another number of ranks has saved it.
        """
        if self._checkpoints is None:
            return default
        with self.progress.phase("restoring"):
            return self._restored(self._checkpoints, default)

    def _restored(self, checkpoints: RunCheckpoints, default: State) -> State:
        candidates = self._readable(checkpoints)
        own = next(candidates, _NOTHING)
        # All ranks see the same orders, and so ask each other equally often.
        while len(set(orders := self._orders_of_ranks(own))) > 1:
            while own.order > min(orders):
                own = next(candidates, _NOTHING)
        if own.manifest is None:
            _log.info("No checkpoint found, starting from the beginning")
            return default
        self._report_restored(own.manifest)
        state: State = own.state
        return state

    def due(self) -> bool:
        """Is it time to save? Cheap enough for every step: clocks and a `stat`, 3 µs.

        Yes when the interval has passed since the start or the last save, and when the run has
        been given notice and has not saved since. No while a save is under way in the background,
        and when a notice leaves no time for a save. Where several ranks save, all get the same
        answer, and all have to ask.

        Raises:
            StaleAttempt: A later attempt of this run has started; this process should end.
        """
        self.progress.step()
        if self._saver is None:
            return False
        self._note_first_step()
        is_due = self._is_due(self._saver)
        return is_due if self._ranks.is_alone else any(self._ranks.numbers(is_due))

    def save(self, state: object, *, step: int | None = None) -> SavedCheckpoint | None:
        """Keep this state. It may change again when this returns.

        Waited for, it survives any crash once this returns. In the background it does when
        it has been written; an earlier save that is still under way is waited for first. After a
        notice every save is waited for. A store that fails costs a warning, not the run: the next
        save tries again.

        Args:
            state: `bytes` are kept as they are. Plain data, NumPy arrays and torch tensors are
                written without pickle, a state that holds anything else with it; arrays are copied
                only once. Of several ranks, this one's part.
            step: The number of the training step, 0 or more, for ranks without an `exchange`: all
                of them have to save at the same steps, each step once.

        Returns:
            What was saved. None where it is still under way, where the store failed, and where
            there is nowhere to save (logged once).

        Raises:
            StaleAttempt: A later attempt of this run has started; this process should end.
            AlreadyCommitted: Another process of this attempt saves too, and is none of the ranks.
            InvalidInput: Only pickle can save the state, and the policy refuses pickles; or the
                step is negative.
        """
        if self._saver is None:
            self._warn_once()
            return None
        self._note_first_step()
        with self.progress.phase("saving"):
            return self._save_now(self._saver, state, step)

    def _save_now(self, saver: Saver, state: object, step: int | None) -> SavedCheckpoint | None:
        self.wait()
        # Looked up before the state is taken: a notice that comes during the save asks for more.
        notice = self._notices.current()
        taken = self._take(state, step, answers_notice=notice is not None)
        if self._background and notice is None:
            saver.start(taken)
            self._schedule.restart()
            return None
        outcome = saver.save(taken)
        self._schedule.restart()
        self._learn(outcome)
        if outcome.saved is not None:
            self._answer(notice)
        return outcome.saved

    def wait(self) -> SavedCheckpoint | None:
        """Wait until the save under way is safe.

        Returns:
            What was saved; None where nothing was under way, or the store failed.

        Raises:
            StaleAttempt: A later attempt of this run has started; this process should end.
        """
        outcome = None if self._saver is None else self._saver.wait()
        self._learn(outcome)
        return None if outcome is None else outcome.saved

    def _is_due(self, saver: Saver) -> bool:
        self._learn(saver.finished())
        notice = self._notices.current()
        if notice is not None and notice != self._answered:
            return self._should_save_for(notice, saver)
        # One at a time: what is due meanwhile is due when that is safe.
        return saver.uploading_for_s() is None and self._schedule.is_due()

    def _should_save_for(self, notice: Notice, saver: Saver) -> bool:
        plan = answer_notice(_left_s(notice), self._schedule.times, saver.uploading_for_s())
        if plan.action is NoticeAction.NOTHING:
            _log.warning("Skipping the checkpoint for notice %r: %s", notice.reason, plan)
            with self._report_lock:
                self._answered = notice
                # The worker need not wait for what will not come.
                self._report_to_worker(replace(self._report, answers_notice=True))
            self._answer(notice)
        return plan.action is NoticeAction.SAVE and self._schedule.may_retry()

    def _answer(self, notice: Notice | None) -> None:
        self._answered = notice
        if notice is None:
            return
        self._schedule.plan_last_save(_left_s(notice))
        self._notices.answered()

    def _learn(self, outcome: Outcome | None) -> None:
        if outcome is None:
            return
        if outcome.took is None:
            self._schedule.failed()
        else:
            self._schedule.succeeded(outcome.took)

    def _take(self, state: object, step: int | None, *, answers_notice: bool) -> Taken:
        began_s = self._clock()
        saved_at = datetime.now(UTC)
        payload_format, payload = self._snapshots.take(state)
        return Taken(
            payload_format=payload_format,
            payload=payload,
            saved_at=saved_at,
            sequence=self._sequence(step),
            began_s=began_s,
            answers_notice=answers_notice,
        )

    def _sequence(self, step: int | None) -> int | None:
        """The number that all ranks give this checkpoint; None: the next one, whichever it is."""
        if self._ranks.is_alone or self._checkpoints is None:
            return None
        if self._ranks.exchange is None and step is not None:
            return _checked_step(step)
        # 0: the store answered none of them, and the save itself reports it.
        return max(self._ranks.numbers(self._next_sequence(self._checkpoints))) or None

    @staticmethod
    def _next_sequence(checkpoints: RunCheckpoints) -> int:
        """The next number; 0 where the store does not say, because the other ranks wait for one."""
        try:
            return checkpoints.next_sequence()
        except FATAL:
            raise
        except Exception as error:  # any error of the store: the save itself reports it
            _log.warning("Failed to list checkpoints: %s", error)
            return 0

    def _readable(self, checkpoints: RunCheckpoints) -> "Iterator[_Candidate]":
        for loaded in checkpoints.newest_first():
            manifest = loaded.manifest
            try:
                state = restored(manifest.format, loaded.payload)
            except Exception as error:  # unpickling runs the code of what was pickled
                checkpoints.reject(manifest.id, f"it cannot be read: {error!r}")
                continue
            yield _Candidate(manifest, state)

    def _orders_of_ranks(self, own: "_Candidate") -> Sequence[int]:
        """The checkpoints that each rank found. Ranks without communication verify all parts."""
        if self._ranks.exchange is None:
            return (own.order,)
        return self._ranks.exchange(own.order)

    def _report_restored(self, manifest: Manifest) -> None:
        _log.info("Restored checkpoint %s of %s", manifest.id, manifest.saved_at.isoformat())
        # What the attempt itself saved earlier is not what it started with.
        if self._checkpoints is not None and manifest.attempt != self._attempt:
            key = self._checkpoints.key(str(manifest.id))
            self._report_to_worker(replace(self._report, restored_from=key))

    def _note_first_step(self) -> None:
        """Report the first step of the attempt, once: until now it was starting."""
        if self._report.first_step_at is not None:
            return
        with self._report_lock:
            self._report_to_worker(replace(self._report, first_step_at=datetime.now(UTC)))

    def _report_saved(
        self, saved: SavedCheckpoint, manifest: Manifest, answers_notice: bool
    ) -> None:
        with self._report_lock:  # in the background, while the run may just be given notice
            # Answered too: nothing more will be saved for it, because that would not fit.
            has_answered = self._answered is not None and self._answered == self.notice
            self._report_to_worker(
                replace(
                    self._report,
                    checkpoint=saved.key,
                    sequence=manifest.sequence,
                    saved_at=manifest.saved_at,
                    size_bytes=saved.size_bytes,
                    duration_s=saved.duration_s,
                    answers_notice=answers_notice or has_answered,
                    expected_loss_s=self._schedule.expected_loss_s(),
                    saves=(self._report.saves or 0) + 1,
                    save_stall_s=self._schedule.times.stall_s,
                )
            )

    def _earlier_report(self) -> CheckpointReport | None:
        """The report of an earlier `with checkpointing()` of the same attempt."""
        if self._run_dir is None:
            return None
        report = read_checkpoint_report(self._run_dir)
        if report is None or report.attempt_id != self._report.attempt_id:
            return None
        return report

    def _report_to_worker(self, report: CheckpointReport) -> None:
        self._report = report
        if self._prefect is not None and self._ranks.rank == 0:
            self._prefect.publish(report)
        if self._run_dir is None:
            return
        try:
            write_checkpoint_report(self._run_dir, report)
        except OSError as error:
            # The checkpoint is safe; that the worker does not know of it costs no work.
            _log.warning("Failed to report the checkpoint to the worker: %s", error)

    def _warn_once(self) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        _log.warning(
            "Checkpoints are disabled because this process is not a run of a GPU work pool "
            "or `checkpoint_uri` is not set"
        )


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A checkpoint that could be restored."""

    manifest: Manifest | None
    state: Any

    @property
    def order(self) -> int:
        """Greater is newer."""
        if self.manifest is None:
            return _NO_CHECKPOINT
        return self.manifest.attempt << _SEQUENCE_BITS | self.manifest.sequence


_NOTHING = _Candidate(None, None)


def _checked_step(step: int) -> int:
    if step < 0:
        raise InvalidInput("step", "is out of range", got=step, allowed="0 or more")
    return operator.index(step)  # a number of NumPy is not written as JSON


def _left_s(notice: Notice) -> float:
    return (notice.deadline_at - datetime.now(UTC)).total_seconds()
