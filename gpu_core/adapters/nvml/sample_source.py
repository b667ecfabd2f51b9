"""The sources of samples of GPUs: the driver, or virtual GPUs."""

from datetime import datetime
from typing import Protocol

from gpu_core.decisions.telemetry.samples import GpuSample


class SampleSource(Protocol):
    """A source of samples."""

    def sample(self, now: datetime) -> tuple[GpuSample, ...]:
        """A sample of each GPU.

        Raises:
            GpuDiscoveryError: The driver fails.
        """
        ...

    def close(self) -> None:
        """Release the driver."""
        ...
