"""The capacity section of the policy: how spot and on-demand are used."""

from typing import Annotated, Literal

from pydantic import Field

from gpu_core.decisions.model.section import PositiveDuration, Section

StrategyName = Literal["patience", "uniform-progress", "plain-uniform-progress", "greedy"]


class BackoffPolicy(Section):
    """For how long a place that failed is left alone."""

    first_backoff_s: PositiveDuration = Field(default=600, alias="first_backoff")
    """After the first failure; twice as long after each further one in a row."""
    longest_backoff_s: PositiveDuration = Field(default=6 * 3600, alias="longest_backoff")

    def backoff_s(self, failures: int) -> float:
        """For how long, after so many failures in a row? At least 1."""
        # 2^32 first back-offs are longer than any longest one.
        return min(self.longest_backoff_s, self.first_backoff_s * 2.0 ** min(failures - 1, 32))


class ZonePolicy(BackoffPolicy):
    """Which zone is tried next for spot."""

    window_s: PositiveDuration = Field(default=24 * 3600, alias="window")
    """Earlier stays in a zone are forgotten."""
    first_backoff_s: PositiveDuration = Field(default=60, alias="first_backoff")
    longest_backoff_s: PositiveDuration = Field(default=3600, alias="longest_backoff")


class CapacityPolicy(Section):
    """How spot and on-demand are used for a workload that may use both."""

    strategy: StrategyName = "patience"
    critical_on_demand: bool = True
    """Critical work never runs on spot."""
    target_spot_share: Annotated[float, Field(ge=0, le=1)] | None = None
    """The part of work without a deadline that should run on spot; None: all that can."""
    changeover_s: PositiveDuration = Field(default=12 * 60, alias="changeover")
    """What a start on other capacity loses, until three starts of the deployment are measured.
    Wu et al. (NSDI'24) have 12 minutes."""
    at_budget: Literal["stop", "continue"] = "stop"
    """What happens to a run whose budget is used up: it saves and stops, or it goes on."""
    budget_warn_at: Annotated[float, Field(ge=0, le=1)] = 0.8
    """The part of its budget from which on a run is warned of."""
    zones: ZonePolicy = ZonePolicy()
    elsewhere: BackoffPolicy = BackoffPolicy()
    """A run that was interrupted leaves alone where that was: the node, or on spot the GPU type in
    that zone."""
    max_spot_interruptions: Annotated[int, Field(ge=1)] | None = 3
    """A run that leaves its capacity open and was interrupted on spot so often in a row, each time
    within two changeovers, goes on on-demand, where there is any, for as long as `elsewhere` says
    after so many failures; None: it tries spot for ever."""
