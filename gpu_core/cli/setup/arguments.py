"""The arguments of `prefect-gpu setup`."""

from dataclasses import replace
from typing import Annotated

from gpu_core.cli.setup.options import SetupOptions
from gpu_core.cli.shared.prefect_settings import load_prefect
from gpu_core.cli.shared.secret_options import secret, secret_file, secret_option

_DEFAULTS = SetupOptions()


def setup(
    *,
    options: SetupOptions = _DEFAULTS,
    ledger_url: Annotated[
        str | None, secret("ledger-url", "The SQLAlchemy URL of the usage ledger database")
    ] = None,
    ledger_url_file: Annotated[str | None, secret_file("ledger-url")] = None,
    mlflow_uri: Annotated[
        str | None, secret("mlflow-uri", "The tracking URI of the MLflow server")
    ] = None,
    mlflow_uri_file: Annotated[str | None, secret_file("mlflow-uri")] = None,
    mlflow_token_file: Annotated[
        str | None,
        secret_file(
            "mlflow-token", "Path to a file containing the bearer token for connecting to MLflow"
        ),
    ] = None,
) -> int:
    """Create or update the resources of a GPU work pool.

    Creates or updates the work pool, work queues, blocks and deployments on the Prefect server
    specified by PREFECT_API_URL. Changes made in the UI are preserved, and you can run this command
    multiple times. Each resource is marked as + (created), ~ (updated), = (unchanged) or !
    (requires manual action).
    """
    load_prefect()
    from gpu_core.cli.setup.command import setup as run_setup

    return run_setup(
        replace(
            options,
            ledger_url=secret_option("ledger-url", ledger_url, ledger_url_file),
            mlflow_uri=secret_option("mlflow-uri", mlflow_uri, mlflow_uri_file),
            mlflow_token=secret_option("mlflow-token", None, mlflow_token_file),
        )
    )
