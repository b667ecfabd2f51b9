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
        str | None, Parameter(help="The work pool's name. Default: gpu, or the only GPU pool.")
    ] = None
    worker_type: Annotated[
        Literal["gpu-process", "gpu-kubernetes"] | None,
        Parameter(name="--type", help="The expected type of the pool. Default: its type."),
    ] = None
    policy_path: Annotated[
        Path | None,
        Parameter(
            name="--policy",
            help="The worker's policy file. Default: PREFECT_INTEGRATIONS_GPU_POLICY_PATH, "
            "deployments/policy.yaml, else built-in values.",
        ),
    ] = None
    service_account: Annotated[
        str | None,
        Parameter(
            help="gpu-kubernetes: the worker's ServiceAccount as NAMESPACE/NAME, whose rights are "
            "checked. Default: your own rights."
        ),
    ] = None
    with_details: Annotated[
        bool, flag("Also print what each check has read.", name="--verbose")
    ] = False
    as_json: AsJson = False
