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
            help="The name of the work pool to check. Defaults to `gpu`, or to the only GPU work "
            "pool if there is exactly one."
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
            "PREFECT_INTEGRATIONS_GPU_POLICY_PATH if set, then deployments/policy.yaml, then "
            "the built-in policy.",
        ),
    ] = None
    service_account: Annotated[
        str | None,
        Parameter(
            help="The worker's service account, in the format NAMESPACE/NAME. If provided, the "
            "permissions of this service account are checked instead of your own. Only "
            "applies to gpu-kubernetes pools."
        ),
    ] = None
    with_details: Annotated[
        bool, flag("Include additional details about each check in the output.", name="--verbose")
    ] = False
    as_json: AsJson = False
