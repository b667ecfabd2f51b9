"""Readings of NVML that neither hang nor stay broken after a reset of the driver."""

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from gpu_core.adapters.nvml import GpuDiscoveryError, GpuUsers
from gpu_core.worker.operations.bounded_call import BoundedCall

ProcessesByGpu = Mapping[str, tuple[int, ...]]
"""The processes on each GPU that answers, by its UUID."""

# NVML answers within milliseconds. A cycle waits so long once; then the call counts as hanging.
_ANSWER_S = 2.0

# The first time: without persistence mode the driver initializes each GPU then.
_FIRST_ANSWER_S = 15.0

# NVML that failed is initialized anew: that takes seconds, and other programs wait for it.
_FIRST_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 300.0


class UsageReader:
    """Asks NVML who computes on the GPUs of this machine.

    Args:
        clock_s: Seconds that never go back.
        answer_s: How long to wait for an answer.
        first_answer_s: The same, where NVML is initialized first.
    """

    def __init__(
        self,
        clock_s: Callable[[], float] = time.monotonic,
        answer_s: float = _ANSWER_S,
        first_answer_s: float = _FIRST_ANSWER_S,
    ) -> None:
        self._clock_s = clock_s
        self._answer_s = answer_s
        self._first_answer_s = first_answer_s
        self._is_initialized = False
        self._users = GpuUsers()
        self._call: BoundedCall[ProcessesByGpu] = BoundedCall()
        self._failure: str | None = None
        self._reopen_at_s: float | None = None
        self._pause_s = _FIRST_PAUSE_S

    def read(self, expected: Collection[str]) -> ProcessesByGpu:
        """The processes on each GPU. GPUs that do not answer are missing.

        Where NVML failed, or one of the expected GPUs was missing, it is initialized anew, at first
        after 5 s, then after pauses that double up to 5 min.

        Args:
            expected: The UUIDs of the GPUs that were there.

        Raises:
            GpuDiscoveryError: NVML fails, did so before and is not asked yet, or does not answer.
        """
        now_s = self._clock_s()
        is_anew = self._reopen_at_s is not None and now_s >= self._reopen_at_s
        if self._failure is not None and not is_anew:
            raise GpuDiscoveryError(self._failure)
        is_first = is_anew or not self._is_initialized
        wait_s = self._first_answer_s if is_first else self._answer_s
        try:
            usage = self._call.of(lambda: self._asked(is_anew), wait_s)
        except TimeoutError as error:
            raise GpuDiscoveryError(f"NVML did not respond within {wait_s:g} seconds") from error
        except GpuDiscoveryError as error:
            self._failure = str(error)
            self._is_initialized = False
            self._reopen_later(now_s)
            raise
        self._failure, self._is_initialized = None, True
        if usage.keys() >= set(expected):
            self._reopen_at_s, self._pause_s = None, _FIRST_PAUSE_S
        elif is_anew or self._reopen_at_s is None:
            self._reopen_later(now_s)
        return usage

    def close(self) -> None:
        """Release the driver, unless a call to it hangs."""
        with suppress(TimeoutError):
            self._call.of(self._closed, self._answer_s)

    def _asked(self, is_anew: bool) -> ProcessesByGpu:
        if is_anew:
            self._users.close()
        return self._users.process_ids()

    def _closed(self) -> ProcessesByGpu:
        self._users.close()
        return {}

    def _reopen_later(self, now_s: float) -> None:
        self._reopen_at_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
