"""What one run of `prefect-gpu setup` is given, and how it says what it does."""

from dataclasses import dataclass, field
from pathlib import Path

from prefect.client.orchestration import PrefectClient

from gpu_core.decisions.model.errors import GpuSchedulingError


class SetupError(GpuSchedulingError):
    """One of Prefect's own commands refused a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupOptions:
    """What to set up. None: leave what there is, create a local default where there is nothing."""

    pool: str
    worker_type: str | None = None
    """None: as the pool is, and for a new one the worker of one machine."""
    policy_path: Path | None
    """None: `deployments/policy.yaml` where there is one, else the default policy."""
    prefect_file: Path | None = None
    """None: `prefect.yaml` where there is one."""
    namespace: str | None = None
    """Where runs of a cluster's pool run, unless they say otherwise."""
    image: str | None = None
    """What runs of a cluster's pool run in, unless they say otherwise."""
    service_account_name: str | None = None
    """As whom pods of a cluster's pool run, unless they say otherwise."""
    ledger_url: str | None = field(default=None, repr=False)
    mlflow_uri: str | None = field(default=None, repr=False)
    mlflow_token: str | None = field(default=None, repr=False)
    checkpoint_uri: str | None = None
    dry_run: bool = False
    """Say what would change, and change nothing."""


@dataclass(frozen=True, slots=True)
class Session:
    """A connection to the server, and whether anything may be changed there."""

    client: PrefectClient
    dry_run: bool

    def did(self, verb: str) -> str:
        """The verb as it is true: `created`, or `to be created`."""
        return f"to be {verb}" if self.dry_run else verb


def say(mark: str, what: str, how: str) -> None:
    """Print one line: `+` is new, `~` changed, `=` as it was, `!` needs a person."""
    print(f"  {mark} {what}: {how}", flush=True)
