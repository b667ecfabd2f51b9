"""The options of `prefect-gpu setup`."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from gpu_core.cli.shared.options import flag
from gpu_core.cli.shared.prefect_settings import load_prefect
from gpu_core.cli.shared.secret_options import secret, secret_file, secret_option

_UNPARSED = Parameter(parse=False)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class SetupOptions:
    """What to set up. None: leave what there is, create a local default where there is nothing."""

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
        str | None, Parameter(help="Where runs save: a folder or s3://bucket/prefix.")
    ] = None
    dry_run: Annotated[bool, flag("Print what would change, and change nothing.")] = False
    ledger_url: Annotated[str | None, _UNPARSED] = field(default=None, repr=False)
    mlflow_uri: Annotated[str | None, _UNPARSED] = field(default=None, repr=False)
    mlflow_token: Annotated[str | None, _UNPARSED] = field(default=None, repr=False)


_DEFAULTS = SetupOptions()


def setup(
    *,
    options: SetupOptions = _DEFAULTS,
    ledger_url: Annotated[
        str | None, secret("ledger-url", "The usage ledger's database, as SQLAlchemy URL")
    ] = None,
    ledger_url_file: Annotated[str | None, secret_file("ledger-url")] = None,
    mlflow_uri: Annotated[str | None, secret("mlflow-uri", "MLflow's tracking URI")] = None,
    mlflow_uri_file: Annotated[str | None, secret_file("mlflow-uri")] = None,
    mlflow_token_file: Annotated[
        str | None, secret_file("mlflow-token", "MLflow's bearer token")
    ] = None,
) -> int:
    """Create or update pool, queues, blocks and deployments; safe to repeat.

    Creates what is missing and updates what differs, in the Prefect server that PREFECT_API_URL
    names. What people edited in the UI is kept. Each line begins with + (new), ~ (changed),
    = (unchanged) or ! (needs a person).
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
