"""Tags that every MLflow run gets inside a GPU run, without a line in the user's flow.

MLflow finds this class by its entry point. It is a module of its own because it needs MLflow
where it is defined, and a flow that tracks nothing shall not load that.
"""

import os

from mlflow.tracking.context.abstract_context import RunContextProvider

from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.runtime.tracking import run_tags


class GpuRunContextProvider(RunContextProvider):
    """The flow run, deployment, attempt and team that an MLflow run belongs to."""

    def in_context(self) -> bool:
        """Is this process part of a run that a GPU worker started?"""
        return RunContext.from_environment(os.environ) is not None

    def tags(self) -> dict[str, str]:
        """The tags that are known; what is unknown has no tag."""
        run = RunContext.from_environment(os.environ)
        return {} if run is None else run_tags(run)
