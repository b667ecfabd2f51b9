"""The options of `prefect-gpu setup`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from gpu_core.cli.shared.options import flag

_UNPARSED = Parameter(parse=False)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class SetupOptions:
    """Options for setup. None: keep what exists, or create a local default."""

    pool: Annotated[str, Parameter(help="The name of the work pool.")] = "gpu"
    worker_type: Annotated[
        Literal["gpu-process", "gpu-kubernetes"] | None,
        Parameter(
            name="--type",
            help="The type of the work pool to use. Defaults to the type of an existing pool, or "
            "gpu-process for a new one.",
        ),
    ] = None
    policy_path: Annotated[
        Path | None,
        Parameter(
            name="--policy",
            help="Path to the policy file. Defaults to deployments/policy.yaml if it exists, or "
            "to the built-in policy.",
        ),
    ] = None
    prefect_file: Annotated[
        Path | None,
        Parameter(help="Path to a deployment file. Defaults to prefect.yaml if the file exists."),
    ] = None
    namespace: Annotated[
        str | None,
        Parameter(
            help="The default Kubernetes namespace for flow runs. Only applies to "
            "gpu-kubernetes pools."
        ),
    ] = None
    image: Annotated[
        str | None,
        Parameter(
            help="The default container image for flow runs. Only applies to gpu-kubernetes pools."
        ),
    ] = None
    service_account_name: Annotated[
        str | None,
        Parameter(
            help="The default Kubernetes service account for flow runs. Only applies to "
            "gpu-kubernetes pools."
        ),
    ] = None
    checkpoint_uri: Annotated[
        str | None,
        Parameter(
            help="Where to store checkpoints. Must be a directory or an s3://bucket/prefix URI."
        ),
    ] = None
    dry_run: Annotated[bool, flag("If set, only print the changes without applying them.")] = False
    ledger_url: Annotated[str | None, _UNPARSED] = field(default=None, repr=False)
    mlflow_uri: Annotated[str | None, _UNPARSED] = field(default=None, repr=False)
    mlflow_token: Annotated[str | None, _UNPARSED] = field(default=None, repr=False)
