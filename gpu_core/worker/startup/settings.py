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
        description=(
            "The path to the policy file. If not set, there are no prices and no virtual GPUs."
        ),
    )
    prices_path: Path | None = Field(
        default=None,
        description="The path to a YAML file with prices that override the catalog.",
    )
    state_dir: Path | None = Field(
        default=None,
        description="The directory for flow runs and locks. Defaults to `$PREFECT_HOME/gpu`.",
    )
    ledger_url: str | None = Field(
        default=None,
        description="The URL of the usage ledger. Defaults to the block gpu-usage-ledger/POOL.",
    )
    mlflow_tracking_uri: str | None = Field(
        default=None,
        description=(
            "The MLflow tracking URI for costs. Defaults to the block gpu-mlflow-tracking/POOL."
        ),
    )
    checkpoint_uri: str | None = Field(
        default=None,
        description=(
            "The URI of the checkpoint store. Defaults to the block gpu-checkpoint-store/POOL."
        ),
    )
    checkpoint_signing_key: Annotated[SecretStr | None, AfterValidator(_signing_key)] = Field(
        default=None,
        description=(
            "The key used by flow runs of a gpu-process worker to sign checkpoints. Must have at "
            "least 16 characters. To keep checkpoints of previous keys valid, append these keys, "
            "separated by spaces. If not set, checkpoints are not signed. Pods get the key from "
            "a Secret in kubernetes.secrets."
        ),
    )
    capacity_type: CapacityType = Field(
        default="on-demand",
        description=(
            "The capacity type of a gpu-process worker. Must be on-demand, spot or reserved."
        ),
    )
    instance_metadata_url: str | None = Field(
        default=None,
        description=(
            "The URL of the EC2 metadata service (http://169.254.169.254). Flow runs of a "
            "gpu-process worker use it to detect interruptions. If not set, it is not queried."
        ),
    )
    pass_environment: Annotated[str | tuple[str, ...], AfterValidator(parse_variable_names)] = (
        Field(
            default=(),
            description=(
                "A list of additional environment variables to pass to flow runs of a gpu-process "
                "worker, separated by commas. Supports prefixes such as `WANDB_*`. See "
                "docs/secrets.md for the defaults."
            ),
        )
    )
    sample_interval_s: Annotated[float, Field(ge=0, le=60)] = Field(
        default=1.0,
        description=(
            "The number of seconds between samples of a flow run's GPUs by a gpu-process "
            "worker. Set to 0 to disable sampling."
        ),
    )
    kubernetes_namespace: str | None = Field(
        default=None,
        description="The Kubernetes namespace of the worker's lease. Defaults to `default`.",
    )
    waiting_state_name: str | None = Field(
        default=None,
        min_length=1,
        description=(
            "The state name to use for all waiting flow runs, such as AwaitingConcurrencySlot. "
            "If not set, each state is named after its reason."
        ),
    )

    log_format: Literal["text", "json"] = Field(
        default="text",
        description="The log format to use. Set to `json` to write one JSON object per line.",
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
