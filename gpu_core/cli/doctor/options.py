"""The options of `prefect-gpu doctor`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from gpu_core.cli.shared.options import AsJson, flag


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """Options for what to check."""

    pool: Annotated[
        str | None,
        Parameter(
            help="The name of the work pool to check. Defaults to gpu, or to the only GPU pool."
        ),
    ] = None
    worker_type: Annotated[
        Literal["gpu-process", "gpu-kubernetes"] | None,
        Parameter(
            name="--type", help="The expected type of the work pool. Defaults to its actual type."
        ),
    ] = None
    policy_path: Annotated[
        Path | None,
        Parameter(
            name="--policy",
            help="Path to the policy file of the worker. Defaults to "
            "PREFECT_INTEGRATIONS_GPU_POLICY_PATH, "
            "deployments/policy.yaml, else built-in values.",
        ),
    ] = None
    service_account: Annotated[
        str | None,
        Parameter(
            help="The ServiceAccount of the worker as NAMESPACE/NAME, to check its permissions. "
            "Only for gpu-kubernetes. Defaults to your own permissions."
        ),
    ] = None
    with_details: Annotated[
        bool, flag("Include the input of each check in the output.", name="--verbose")
    ] = False
    as_json: AsJson = False
