"""The options of `prefect-gpu check`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gpu_core.cli.shared.options import AsJson
from gpu_core.cli.shared.usage_errors import unknown_option
from gpu_core.decisions.model.errors import InvalidInput


def check(
    *files: Annotated[
        str,
        Parameter(
            help="Path to a file or folder, or - to read from standard input.",
            allow_leading_hyphen=True,  # `-` would be taken for an unknown option
        ),
    ],
    policy: Annotated[
        Path | None,
        Parameter(
            help="The policy to use for manifests and deployments. Defaults to the first one "
            "among the "
            "files, else built-in values."
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Find errors in a policy, prefect.yaml, base job template or manifests.

    Recognizes each file by its contents. Needs neither a server nor a cluster.
    """
    from gpu_core.cli.check.command import check as run_check

    if not files:
        raise InvalidInput(
            "FILES",
            "is required",
            allowed="files, folders, or -",
            remedy="for example `prefect-gpu check policy.yaml prefect.yaml`",
        )
    for name in files:
        if name.startswith("--"):
            raise unknown_option(name, ("--help", "--json", "--policy"))
    return run_check(files, policy, as_document=as_json)
