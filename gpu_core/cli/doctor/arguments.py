"""The arguments of `prefect-gpu doctor`."""

from typing import Annotated

from gpu_core.cli.doctor.options import DoctorOptions
from gpu_core.cli.shared.prefect_settings import load_prefect
from gpu_core.cli.shared.secret_options import secret, secret_file, secret_option

_DEFAULTS = DoctorOptions()


def doctor(
    *,
    options: DoctorOptions = _DEFAULTS,
    ledger_url: Annotated[
        str | None,
        secret(
            "ledger-url",
            "The ledger to check. If not provided, the ledger of the work pool will be checked",
        ),
    ] = None,
    ledger_url_file: Annotated[str | None, secret_file("ledger-url")] = None,
) -> int:
    """Check everything that a pool's worker needs, with a remedy where it fails.

    Checks versions, Prefect's API, the pool and its template, clocks, checkpoint store, ledger and
    MLflow. Checks the rights, lease, nodes and NodePools of a cluster, or this machine's GPUs.
    Writes and removes one object in the checkpoint store, and changes nothing else.
    """
    load_prefect()
    from gpu_core.cli.doctor.command import doctor as run_doctor

    return run_doctor(options, secret_option("ledger-url", ledger_url, ledger_url_file))
