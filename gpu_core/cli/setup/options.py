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

    pool: Annotated[str, Parameter(help="The work pool's name.")] = "gpu"
    worker_type: Annotated[
        Literal["gpu-process", "gpu-kubernetes"] | None,
        Parameter(
            name="--type",
            help="Where runs execute: on this machine or in a cluster. Default: the pool's type; "
            "gpu-process for a new pool.",
        ),
    ] = None
    policy_path: Annotated[
        Path | None,
        Parameter(
            name="--policy",
            help="The policy file. Default: deployments/policy.yaml, else built-in values.",
        ),
    ] = None
    prefect_file: Annotated[
        Path | None, Parameter(help="The deployments. Default: prefect.yaml, if there is one.")
    ] = None
    namespace: Annotated[
        str | None, Parameter(help="gpu-kubernetes: the default namespace of runs.")
    ] = None
    image: Annotated[str | None, Parameter(help="gpu-kubernetes: the default image of runs.")] = (
        None
    )
    service_account_name: Annotated[
        str | None, Parameter(help="gpu-kubernetes: the default ServiceAccount of runs.")
    ] = None
    checkpoint_uri: Annotated[
        str | None, Parameter(help="The location of checkpoints: a folder or s3://bucket/prefix.")
    ] = None
    dry_run: Annotated[bool, flag("Print the changes without making them.")] = False
    ledger_url: Annotated[str | None, _UNPARSED] = field(default=None, repr=False)
    mlflow_uri: Annotated[str | None, _UNPARSED] = field(default=None, repr=False)
    mlflow_token: Annotated[str | None, _UNPARSED] = field(default=None, repr=False)
