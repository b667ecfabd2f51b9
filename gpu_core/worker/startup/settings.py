"""Settings of a worker, in Prefect's settings system.

Environment variables begin with `PREFECT_INTEGRATIONS_GPU_`; the table `[integrations.gpu]` of a
`prefect.toml` works as well.
"""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from prefect.settings import get_current_settings
from prefect.settings.base import (
    PrefectBaseSettings,
    PrefectSettingsConfigDict,
    build_settings_config,
)
from pydantic import AfterValidator, Field, SecretStr

from gpu_core.decisions.checkpoints.trust import parse_signing_keys
from gpu_core.decisions.model.redaction import secrets_in
from gpu_core.decisions.model.section import CapacityType
from gpu_core.decisions.requests.runs.run_environment import parse_variable_names


def _signing_key(key: SecretStr | None) -> SecretStr | None:
    if key is not None:
        parse_signing_keys(key.get_secret_value(), "checkpoint_signing_key")
    return key


class GpuWorkerSettings(PrefectBaseSettings):
    """The settings of the GPU workers of this machine."""

    model_config: ClassVar[PrefectSettingsConfigDict] = build_settings_config(
        ("integrations", "gpu")
    )

    policy_path: Path | None = Field(
        default=None,
        description="Path to the policy file. By default there are no prices and no virtual GPUs.",
    )
    prices_path: Path | None = Field(
        default=None,
        description="Path to a YAML file with your own prices. They override the catalog.",
    )
    state_dir: Path | None = Field(
        default=None,
        description="The folder for runs and locks. Defaults to `gpu` in Prefect's home folder.",
    )
    ledger_url: str | None = Field(
        default=None,
        description="The usage ledger database. Defaults to the block gpu-usage-ledger/POOL.",
    )
    mlflow_tracking_uri: str | None = Field(
        default=None,
        description="The MLflow server for costs. Defaults to the block gpu-mlflow-tracking/POOL.",
    )
    checkpoint_uri: str | None = Field(
        default=None,
        description="The checkpoint store. Defaults to the block gpu-checkpoint-store/POOL.",
    )
    checkpoint_signing_key: Annotated[SecretStr | None, AfterValidator(_signing_key)] = Field(
        default=None,
        description=(
            "The key with which runs of a gpu-process worker sign checkpoints: 16 characters or "
            "more. Earlier keys, whose checkpoints stay valid, follow after spaces. By default "
            "nothing is signed. Pods get it from a Secret that kubernetes.secrets names."
        ),
    )
    capacity_type: CapacityType = Field(
        default="on-demand",
        description="The capacity type of a gpu-process worker: on-demand, spot or reserved.",
    )
    instance_metadata_url: str | None = Field(
        default=None,
        description=(
            "The address of EC2's metadata service (http://169.254.169.254), which runs of a "
            "gpu-process worker ask for interruptions. By default they ask nothing."
        ),
    )
    pass_environment: Annotated[str | tuple[str, ...], AfterValidator(parse_variable_names)] = (
        Field(
            default=(),
            description=(
                "Further environment variables that runs of a gpu-process worker inherit, "
                "separated by commas. `WANDB_*` is a prefix. docs/secrets.md has the others."
            ),
        )
    )
    sample_interval_s: Annotated[float, Field(ge=0, le=60)] = Field(
        default=1.0,
        description=(
            "Seconds between two samples of a run's GPUs by a gpu-process worker; 0: no samples."
        ),
    )
    kubernetes_namespace: str | None = Field(
        default=None,
        description="The namespace of the lease of a gpu-kubernetes worker. Defaults to `default`.",
    )
    waiting_state_name: str | None = Field(
        default=None,
        min_length=1,
        description=(
            "One name for the states of all waiting runs, such as AwaitingConcurrencySlot, for "
            "the UI's state filter. By default each state has the name of its reason."
        ),
    )

    log_format: Literal["text", "json"] = Field(
        default="text",
        description="The format of the log: text, or json for one JSON object on each line.",
    )

    def secrets(self) -> tuple[str, ...]:
        """The values in these settings that no text may show."""
        key = self.checkpoint_signing_key
        keys = () if key is None else key.get_secret_value().split()
        return (*secrets_in(self.ledger_url or ""), *keys)

    def resolved_state_dir(self) -> Path:
        """The folder of run folders and locks."""
        return self.state_dir or get_current_settings().home / "gpu"


def file_name(pool: str) -> str:
    """The pool's name for files: letters, digits, `-` and `_` stay, others become `_`."""
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in pool)
