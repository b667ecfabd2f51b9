"""The capacity section of the policy: how spot and on-demand are used."""

from typing import Annotated, Literal

from pydantic import Field

from gpu_core.decisions.model.section import PositiveDuration, Section

StrategyName = Literal["patience", "uniform-progress", "plain-uniform-progress", "greedy"]


class BackoffPolicy(Section):
    """The time for which a place that failed is avoided."""

    first_backoff_s: PositiveDuration = Field(default=600, alias="first_backoff")
    """The time after the first failure; it doubles after each further one in a row."""
    longest_backoff_s: PositiveDuration = Field(default=6 * 3600, alias="longest_backoff")
    """The upper limit of this time."""

    def backoff_s(self, failures: int) -> float:
        """The pause after this many failures in a row, at least 1, in seconds."""
        # 2^32 first back-offs are longer than any longest one.
        return min(self.longest_backoff_s, self.first_backoff_s * 2.0 ** min(failures - 1, 32))


class ZonePolicy(BackoffPolicy):
    """The zones that a run on spot prefers."""

    window_s: PositiveDuration = Field(default=24 * 3600, alias="window")
    """The time for which spot of a zone counts."""
    first_backoff_s: PositiveDuration = Field(default=60, alias="first_backoff")
    longest_backoff_s: PositiveDuration = Field(default=3600, alias="longest_backoff")


class CapacityPolicy(Section):
    """The use of spot and on-demand by runs with `capacity_type: auto`."""

    strategy: StrategyName = "patience"
    """The choice of a run with a deadline while both spot and on-demand meet it."""
    critical_on_demand: bool = True
    """Whether runs with the points of the queue `critical` never use spot."""
    target_spot_share: Annotated[float, Field(ge=0, le=1)] | None = None
    """The fraction of GPUs that runs without a deadline use on spot; None: as much as possible."""
    changeover_s: PositiveDuration = Field(default=12 * 60, alias="changeover")
    """The time that a start on other capacity loses, until three starts of the deployment are
    measured (12 minutes: Wu et al., NSDI'24)."""
    at_budget: Literal["stop", "continue"] = "stop"
    """Whether a run whose `budget_usd` is used up saves and stops, or continues."""
    budget_warn_at: Annotated[float, Field(ge=0, le=1)] = 0.8
    """The fraction of `budget_usd` at which the run's log warns."""
    zones: ZonePolicy = ZonePolicy()
    elsewhere: BackoffPolicy = BackoffPolicy()
    """How long an interrupted run avoids the node, or on spot the GPU type in that zone."""
    max_spot_interruptions: Annotated[int, Field(ge=1)] | None = 3
    """The number of consecutive interruptions on spot, each within two changeovers. After them a
    run uses on-demand for the back-off of `elsewhere`. None: it always tries spot."""
