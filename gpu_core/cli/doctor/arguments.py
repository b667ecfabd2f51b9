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
            "The file path or URL of the ledger to check. Defaults to the ledger of the work pool",
        ),
    ] = None,
    ledger_url_file: Annotated[str | None, secret_file("ledger-url")] = None,
) -> int:
    """Diagnose configuration and connectivity issues of a GPU work pool.

    Checks package versions, the Prefect API, the work pool and its base job template, clock skew,
    the checkpoint store, the ledger and MLflow. For Kubernetes pools, also checks permissions, the
    leader election lease, nodes and NodePools; for process pools, checks the local GPUs. To test
    write access, a temporary object is created in the checkpoint store and then deleted. No other
    changes are made.
    """
    load_prefect()
    from gpu_core.cli.doctor.command import doctor as run_doctor

    return run_doctor(options, secret_option("ledger-url", ledger_url, ledger_url_file))
