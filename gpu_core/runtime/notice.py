"""Must this run stop? Asked on every step, so it must cost next to nothing.

Every source answers with the same `Notice`: the worker's file, Kubernetes' annotation, the
provider's metadata service, and SIGTERM.
"""

import logging
import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType

from gpu_core.adapters.files.run_files import Notice, read_notice_file
from gpu_core.decisions.requests.runs.run_context import NOTICE_FILE, RunContext

_log = logging.getLogger(__name__)

# AWS's advice for its metadata service (EC2 user guide, "Spot Instance interruption notices").
_POLL_S = 5.0
# A machine without the service refuses or is silent; one of EC2 answers at the first try.
_MOST_FAILURES = 3


class NoticeSource(ABC):
    """One way by which a notice reaches the run."""

    def start(self) -> None:  # noqa: B027 - most sources have nothing to start
        """Begin to look."""

    @abstractmethod
    def current(self) -> Notice | None:
        """The newest notice, or None. Must not wait."""

    def answered(self) -> None:  # noqa: B027 - most leave the end to the one that sent the notice
        """The run has done what it could about the notice."""

    def close(self) -> None:  # noqa: B027 - most sources have nothing to close
        """Stop looking."""


class Notices:
    """The notice that was given last, by any of several sources."""

    def __init__(self, sources: Sequence[NoticeSource]) -> None:
        self._sources = sources

    def start(self) -> None:
        """Begin to look."""
        for source in self._sources:
            source.start()

    def current(self) -> Notice | None:
        """The newest notice, or None."""
        newest = None
        for source in self._sources:
            notice = source.current()
            if notice is None:
                continue
            if newest is None or notice.requested_at > newest.requested_at:
                newest = notice
        return newest

    def answered(self) -> None:
        """The run has done what it could about the notice."""
        for source in self._sources:
            source.answered()

    def close(self) -> None:
        """Stop looking."""
        for source in self._sources:
            source.close()


def notices_of(run: RunContext, *, can_save: bool) -> Notices:
    """All sources of a notice for this run.

    Args:
        run: What the run knows about itself.
        can_save: Whether it has a checkpoint store; otherwise SIGTERM is left alone.
    """
    sources: list[NoticeSource] = [TerminationSignal(run.grace_s)] if can_save else []
    if run.run_dir is not None:
        sources.append(NoticeFile(Path(run.run_dir, NOTICE_FILE)))
    if run.notice_file is not None:
        sources.append(NoticeFile(Path(run.notice_file)))
    if run.instance_metadata_url is not None:
        # Imported here: most runs are on no spot instance of EC2.
        from gpu_core.adapters.aws.instance_metadata import InstanceMetadata

        sources.append(PolledNotice(InstanceMetadata(run.instance_metadata_url).notice))
    return Notices(sources)


class NoticeFile(NoticeSource):
    """A notice in a file, read again only when the file was replaced.

    Args:
        path: Where it appears: the worker's in the run's folder, or a mounted annotation.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text = str(path)
        self._version: tuple[int, int] | None = None
        self._notice: Notice | None = None

    def current(self) -> Notice | None:
        """The newest notice, or None. One `stat` where nothing has changed."""
        try:
            status = os.stat(self._text)  # noqa: PTH116 - pathlib takes twice as long
        except OSError:
            return None  # not come, or taken back
        if status.st_size == 0:
            return None  # Kubernetes' file of an annotation that is not set
        version = (status.st_ino, status.st_mtime_ns)
        if version != self._version:
            self._notice = read_notice_file(self._path)
            self._version = version
        return self._notice


class PolledNotice(NoticeSource):
    """A notice that has to be polled, by a thread of its own.

    Args:
        ask: Answers the notice or None; raises OSError without an answer.
        every_s: Seconds between two questions.
    """

    def __init__(self, ask: Callable[[], Notice | None], every_s: float = _POLL_S) -> None:
        self._ask = ask
        self._every_s = every_s
        self._notice: Notice | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="notice-poll", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def current(self) -> Notice | None:
        """The last answer."""
        return self._notice

    def close(self) -> None:
        """Ask no more."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def _poll(self) -> None:
        failures, has_answered = 0, False
        while True:
            try:
                self._notice = self._ask()
                has_answered = True
            except OSError as error:
                failures += 1
                if failures >= _MOST_FAILURES and not has_answered:
                    _log.warning("Unable to receive interruption notices: %s", error)
                    return
            if self._closed.wait(self._every_s):
                return


class TerminationSignal(NoticeSource):
    """SIGTERM, where nothing else handles it: save first, then end as the sender wanted.

    Inside a Prefect flow Prefect handles it. A second SIGTERM ends the process at once.

    Args:
        grace_s: Seconds from SIGTERM to SIGKILL.
    """

    def __init__(self, grace_s: float) -> None:
        self._grace = timedelta(seconds=grace_s)
        self._notice: Notice | None = None
        self._is_watching = False

    def start(self) -> None:
        """Handle the signal, if it would kill the process otherwise."""
        # Python lets only the main thread handle signals.
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._receive)
            self._is_watching = True

    def current(self) -> Notice | None:
        """The time of the signal, and the remaining time."""
        return self._notice

    def answered(self) -> None:
        """End, if the signal came."""
        if self._notice is not None:
            os.kill(os.getpid(), signal.SIGTERM)

    def close(self) -> None:
        """Leave the signal to the system again; one that came has its effect now."""
        if self._is_watching and self._notice is None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._is_watching = False
        self.answered()

    def _receive(self, _number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        now = datetime.now(UTC)
        self._notice = Notice(
            reason="Terminated",
            message="SIGTERM",
            requested_at=now,
            deadline_at=now + self._grace,
        )
