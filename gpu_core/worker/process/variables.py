"""The work pool's form: the job variables of the public contract, and Prefect's own."""

from pathlib import Path
from typing import Any

from prefect.workers.base import BaseJobConfiguration, BaseVariables
from pydantic import Field, PrivateAttr

from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.worker.attempts.job_configuration import KnownEnvironment


class GpuProcessJobConfiguration(KnownEnvironment, BaseJobConfiguration):
    """The configuration of the process of one attempt. The scheduler assigns the GPUs."""

    working_dir: Path | None = Field(
        default=None, description="The working directory of the process."
    )
    _unset: frozenset[str] = PrivateAttr(default=frozenset())

    @property
    def unset(self) -> frozenset[str]:
        """The variables that the job variable `env` sets to null: the run does not inherit them."""
        return self._unset

    def prepare_for_flow_run(self, *arguments: Any, **options: Any) -> None:
        """As Prefect's, which drops the names that are set to null."""
        self._unset = frozenset(name for name, value in self.env.items() if value is None)
        super().prepare_for_flow_run(*arguments, **options)


class GpuProcessVariables(GpuRequest, BaseVariables):
    """The job variables of a gpu-process work pool, as shown in its form."""

    working_dir: Path | None = Field(
        default=None,
        description="The working directory of the process. Defaults to a temporary directory.",
    )
