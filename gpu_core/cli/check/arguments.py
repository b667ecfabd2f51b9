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
            help="Path to a file or directory, or `-` for stdin.",
            allow_leading_hyphen=True,  # `-` would be taken for an unknown option
        ),
    ],
    policy: Annotated[
        Path | None,
        Parameter(
            help="Path to the policy used to validate manifests and deployments. Defaults to the "
            "first policy found in the given files, or to the built-in policy."
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Validate policies, prefect.yaml files, base job templates and Kubernetes manifests.

    The type of each file is detected from its contents. This command does not require a connection
    to a Prefect server or a cluster.
    """
    from gpu_core.cli.check.command import check as run_check

    if not files:
        raise InvalidInput(
            "FILES",
            "is required",
            allowed="files, folders, or -",
            remedy="example: `prefect-gpu check policy.yaml prefect.yaml`",
        )
    for name in files:
        if name.startswith("--"):
            raise unknown_option(name, ("--help", "--json", "--policy"))
    return run_check(files, policy, as_document=as_json)
