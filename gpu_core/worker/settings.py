"""What an operator sets for a worker, through Prefect's own settings system.

Environment variables begin with `PREFECT_INTEGRATIONS_GPU_`; the table `[integrations.gpu]` of a
`prefect.toml` works as well.
"""

from pathlib import Path
from typing import Annotated, ClassVar

from prefect.settings import get_current_settings
from prefect.settings.base import (
    PrefectBaseSettings,
    PrefectSettingsConfigDict,
    build_settings_config,
)
from pydantic import AfterValidator, Field

from gpu_core.decisions.policy_base import CapacityType
from gpu_core.decisions.run_environment import parse_variable_names


class GpuWorkerSettings(PrefectBaseSettings):
    """The settings of the GPU workers of this machine."""

    model_config: ClassVar[PrefectSettingsConfigDict] = build_settings_config(
        ("integrations", "gpu")
    )

    policy_path: Path | None = Field(
        default=None,
        description="The policy file; by default none: no prices and no virtual GPUs.",
    )
    state_dir: Path | None = Field(
        default=None,
        description="Where run folders and locks live; `gpu` in Prefect's home folder by default.",
    )
    ledger_url: str | None = Field(
        default=None,
        description="The usage ledger's database; the block gpu-usage-ledger/default by default.",
    )
    mlflow_tracking_uri: str | None = Field(
        default=None,
        description="Where costs are logged; the block gpu-mlflow-tracking/default by default.",
    )
    checkpoint_uri: str | None = Field(
        default=None,
        description="Where runs save; the block gpu-checkpoint-store/default by default.",
    )
    capacity_type: CapacityType = Field(
        default="on-demand",
        description="What this machine is, for a gpu-process worker: on-demand, spot or reserved.",
    )
    instance_metadata_url: str | None = Field(
        default=None,
        description=(
            "Where the runs of a gpu-process worker ask EC2's metadata service for interruptions "
            "(http://169.254.169.254); by default nowhere."
        ),
    )
    pass_environment: Annotated[str | tuple[str, ...], AfterValidator(parse_variable_names)] = (
        Field(
            default=(),
            description=(
                "Further variables of a gpu-process worker's environment that its runs inherit, "
                "separated by commas; `WANDB_*` is a prefix. docs/secrets.md has the others."
            ),
        )
    )
    kubernetes_namespace: str | None = Field(
        default=None,
        description="Where the lease of a gpu-kubernetes worker lives; `default` by default.",
    )
    waiting_state_name: str = Field(
        default="AwaitingConcurrencySlot",
        description=(
            "The name of the state of a waiting run. The default can be filtered in the UI and "
            "survives the pausing of a deployment; another name does neither."
        ),
    )

    def resolved_state_dir(self) -> Path:
        """The folder of run folders and locks."""
        return self.state_dir or get_current_settings().home / "gpu"


def file_name(pool: str) -> str:
    """What files of this pool's worker begin with, whatever the pool is called."""
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in pool)
