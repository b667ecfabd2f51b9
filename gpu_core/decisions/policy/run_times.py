"""Policy section `run_times`: how run times are predicted."""

from typing import Annotated

from pydantic import Field

from gpu_core.decisions.model.section import Section

UPPER_QUANTILE = 0.8
"""Late enough that a reservation mostly holds, early enough that backfill finds room."""


class RunTimePolicy(Section):
    """Settings for the estimation of run times."""

    quantile: Annotated[float, Field(gt=0.5, lt=1)] = UPPER_QUANTILE
    """The probability with which a run finishes within the upper estimate of its run time."""
    min_runs: Annotated[int, Field(ge=1, le=1000)] = 5
    """The minimum number of finished runs that are required before run times are estimated from
    history."""
    use_stated: bool = True
    """Whether an expected duration that is set by the owner takes precedence over the estimate from
    history."""
