"""Why cycles fail: logged once, however many fail for the same reason."""

from collections.abc import Callable

from gpu_core.decisions.checks.prefect.pool_commands import setup_command
from gpu_core.decisions.model.errors import sentences
from gpu_core.worker.operations.cycle_loop import AnyLogger
from gpu_core.worker.operations.outage_errors import RETRIED_IN_CYCLE, is_outage
from gpu_core.worker.operations.throttle import LastSaid
from gpu_core.worker.startup.checks import is_pool_missing


class CycleFailures:
    """The failures of one worker's cycles.

    Args:
        pool: The pool's name.
        worker_type: The worker's type, for the command that makes the pool again.
        hidden: A text without secrets.
    """

    def __init__(self, pool: str, worker_type: str, hidden: Callable[[str], str]) -> None:
        self._pool = pool
        self._worker_type = worker_type
        self._hidden = hidden
        self._why_waiting, self._last = LastSaid(), LastSaid()

    def note(self, error: Exception, logger: AnyLogger, *, is_scheduling: bool) -> None:
        """A cycle has failed.

        Args:
            error: Why.
            logger: Where it is logged.
            is_scheduling: False: the worker waits for what it needs to become the acting one.
        """
        if is_scheduling or not is_outage(error):
            self._note_failed(error, logger)
            return
        text = self._hidden(str(error))
        if self._why_waiting.is_news(text):
            logger.warning("Worker is not ready to schedule: %s", sentences(text, RETRIED_IN_CYCLE))

    def note_success(self) -> None:
        """A cycle has not failed: the next failure is news."""
        self._last.forget()

    def note_scheduling(self) -> None:
        """The worker waits for nothing any more."""
        self._why_waiting.forget()

    def _note_failed(self, error: Exception, logger: AnyLogger) -> None:
        if not self._last.is_news(f"{type(error).__name__}: {error}"):
            logger.debug("Scheduling cycle failed with the same error", exc_info=error)
        elif is_pool_missing(error, self._pool):
            logger.error(
                (
                    "Work pool %r no longer exists, so no runs are started. You can recreate it "
                    "with `%s`"
                ),
                self._pool,
                setup_command(self._pool, self._worker_type),
            )
        else:
            logger.error(
                "Scheduling cycle failed. The worker retries in the next cycle, and logs the same "
                "error at debug level.",
                exc_info=error,
            )
