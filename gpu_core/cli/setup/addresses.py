"""The addresses that `prefect-gpu setup` was given: checked, and the same from every folder."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpu_core.adapters.ledger.engine import parse_url
from gpu_core.cli.setup.options import SetupOptions
from gpu_core.decisions.checkpoints.store_address import parse_store_address
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import refuse
from gpu_core.decisions.model.redaction import secrets_in


def with_checked_addresses(options: SetupOptions) -> SetupOptions:
    """The options with addresses that can be used; paths in them are absolute.

    Raises:
        InvalidInput: One cannot be used; the field is the option.
        InvalidInputs: Several cannot.
    """
    errors: list[InvalidInput] = []

    def checked(option: str, given: str | None, check: Callable[[str], str]) -> str | None:
        if given is None:
            return None
        try:
            return check(given)
        except InvalidInput as error:
            errors.append(error.at(option))
            return None

    found = replace(
        options,
        ledger_url=checked("--ledger-url", options.ledger_url, _ledger_url),
        checkpoint_uri=checked("--checkpoint-uri", options.checkpoint_uri, _checkpoint_uri),
        mlflow_uri=checked("--mlflow-uri", options.mlflow_uri, _mlflow_uri),
    )
    refuse(errors)
    return found


def _ledger_url(url: str) -> str:
    parsed = parse_url(url)
    is_file = parsed.get_backend_name() == "sqlite"
    return parsed.render_as_string(hide_password=False) if is_file else url


def _checkpoint_uri(uri: str) -> str:
    if secrets_in(uri):
        raise InvalidInput(
            "",
            "must not contain credentials",
            got=uri,
            remedy="set the AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY environment variables "
            "instead",
        )
    parse_store_address(uri, "")  # only its runs know whether a bucket is there
    return uri if "://" in uri else str(Path(uri.strip()).expanduser().absolute())


def _mlflow_uri(uri: str) -> str:
    if "://" in uri or uri.split("/")[0] in ("databricks", "databricks-uc"):
        return uri
    raise InvalidInput(
        "",
        "is not a valid URL",
        got=uri,
        allowed="a URL such as http://mlflow:5000 or sqlite:////absolute/path/mlflow.db",
    )
