"""The options of `prefect-gpu doctor`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from gpu_core.cli.shared.options import AsJson, flag
from gpu_core.cli.shared.prefect_settings import load_prefect
from gpu_core.cli.shared.secret_options import secret, secret_file, secret_option


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """What is checked."""

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
        bool, flag("Print what each check has read, too.", name="--verbose")
    ] = False
    as_json: AsJson = False


_DEFAULTS = DoctorOptions()


def doctor(
    *,
    options: DoctorOptions = _DEFAULTS,
    ledger_url: Annotated[
        str | None, secret("ledger-url", "The ledger's database instead of the pool's")
    ] = None,
    ledger_url_file: Annotated[str | None, secret_file("ledger-url")] = None,
) -> int:
    """Check everything that a pool's worker needs, with a remedy where it fails.

    Checks versions, Prefect's API and the pool, its template, the cluster's rights, lease, nodes
    and NodePools or this machine's GPUs, clocks, checkpoint store, ledger and MLflow. Changes
    nothing but one object in the checkpoint store, which is removed again.
    """
    load_prefect()
    from gpu_core.cli.doctor.command import doctor as run_doctor

    return run_doctor(options, secret_option("ledger-url", ledger_url, ledger_url_file))
