"""The capacity section of the policy: how spot and on-demand are used."""

from typing import Annotated, Literal

from pydantic import Field

from gpu_core.decisions.model.section import PositiveDuration, Section

StrategyName = Literal["patience", "uniform-progress", "plain-uniform-progress", "greedy"]


class BackoffPolicy(Section):
    """Settings that control how long a failed node or zone is avoided."""

    first_backoff_s: PositiveDuration = Field(default=600, alias="first_backoff")
    """The backoff period after the first failure. The period doubles with each consecutive
    failure."""
    longest_backoff_s: PositiveDuration = Field(default=6 * 3600, alias="longest_backoff")
    """The maximum length of the backoff period."""

    def backoff_s(self, failures: int) -> float:
        """The pause after this many failures in a row, at least 1, in seconds."""
        # 2^32 first back-offs are longer than any longest one.
        return min(self.longest_backoff_s, self.first_backoff_s * 2.0 ** min(failures - 1, 32))


class ZonePolicy(BackoffPolicy):
    """Settings that control which zones are preferred for runs on spot."""

    window_s: PositiveDuration = Field(default=24 * 3600, alias="window")
    """The period over which the spot history of a zone is considered."""
    first_backoff_s: PositiveDuration = Field(default=60, alias="first_backoff")
    longest_backoff_s: PositiveDuration = Field(default=3600, alias="longest_backoff")


class CapacityPolicy(Section):
    """Settings that control how runs with `capacity_type: auto` use spot and on-demand capacity."""

    strategy: StrategyName = "patience"
    """The strategy for a run with a deadline, as long as both spot and on-demand capacity can meet
    the deadline."""
    critical_on_demand: bool = True
    """If true, runs with the priority of the queue `critical` never use spot capacity."""
    target_spot_share: Annotated[float, Field(ge=0, le=1)] | None = None
    """The target fraction of GPUs on spot capacity for runs without a deadline. If not set, these
    runs use as much spot capacity as possible."""
    changeover_s: PositiveDuration = Field(default=12 * 60, alias="changeover")
    """The time that is lost when a run starts on other capacity. This value is used until three
    starts of the deployment have been measured. The default of 12 minutes is from Wu et al.,
    NSDI'24."""
    at_budget: Literal["stop", "continue"] = "stop"
    """What happens when a run reaches its `budget_usd`. With `stop`, the run saves a checkpoint and
    stops. With `continue`, the run is not stopped."""
    budget_warn_at: Annotated[float, Field(ge=0, le=1)] = 0.8
    """The fraction of `budget_usd` at which a warning is written to the log of the run."""
    zones: ZonePolicy = ZonePolicy()
    elsewhere: BackoffPolicy = BackoffPolicy()
    """How long a run avoids the node on which it was interrupted. If the run was on spot, it avoids
    the GPU type in the zone instead."""
    max_spot_interruptions: Annotated[int, Field(ge=1)] | None = 3
    """The maximum number of consecutive interruptions on spot, where each occurs within two
    changeovers. When this number is reached, the run uses on-demand capacity for the backoff period
    of `elsewhere`. If null, the run always tries spot."""
