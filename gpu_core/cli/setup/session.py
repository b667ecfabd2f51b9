"""The connection of one run of `prefect-gpu setup`, and how it says what it does."""

from dataclasses import dataclass

from prefect.client.orchestration import PrefectClient

from gpu_core.decisions.model.errors import GpuSchedulingError


class SetupError(GpuSchedulingError):
    """One of Prefect's own commands refused a step."""


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
