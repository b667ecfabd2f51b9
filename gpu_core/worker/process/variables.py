"""The work pool's form: the job variables of the public contract beside Prefect's own."""

from pathlib import Path

from prefect.workers.base import BaseJobConfiguration, BaseVariables
from pydantic import Field

from gpu_core.decisions.request import GpuRequest
from gpu_core.worker.configuration import KnownEnvironment


class GpuProcessJobConfiguration(KnownEnvironment, BaseJobConfiguration):
    """How the process of one attempt is started. GPUs are not here: the scheduler assigns them."""

    working_dir: Path | None = Field(
        default=None, description="The folder in which the process runs."
    )


class GpuProcessVariables(GpuRequest, BaseVariables):
    """What the form of a gpu-process work pool offers."""

    working_dir: Path | None = Field(
        default=None,
        description="The folder in which the run's process starts; a temporary one by default.",
    )
