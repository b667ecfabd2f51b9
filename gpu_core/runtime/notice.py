"""Has this run been told to end? Asked on every step, so it must cost next to nothing."""

import os
from pathlib import Path

from gpu_core.adapters.run_files import Notice, read_notice
from gpu_core.decisions.run_context import NOTICE_FILE


class NoticeWatch:
    """The notice in a run's folder, read again only when the file was replaced.

    Args:
        run_dir: The run's folder; None outside a run, where no notice ever comes.
    """

    def __init__(self, run_dir: str | None) -> None:
        self._run_dir = run_dir
        self._path = None if run_dir is None else str(Path(run_dir, NOTICE_FILE))
        self._version: tuple[int, int] | None = None
        self._notice: Notice | None = None

    def current(self) -> Notice | None:
        """The newest notice, or None. One `stat` where nothing has changed."""
        if self._path is None or self._run_dir is None:
            return None
        try:
            status = os.stat(self._path)  # noqa: PTH116 - pathlib takes twice as long
        except OSError:
            return None  # not come, or taken back
        version = (status.st_ino, status.st_mtime_ns)
        if version != self._version:
            self._notice = read_notice(self._run_dir)
            self._version = version
        return self._notice
