"""Policy section `run_times`: how run times are predicted."""

from typing import Annotated

from pydantic import Field

from gpu_core.decisions.model.section import Section

UPPER_QUANTILE = 0.8
"""Late enough that a reservation mostly holds, early enough that backfill finds room."""


class RunTimePolicy(Section):
    """The estimate of run times."""

    quantile: Annotated[float, Field(gt=0.5, lt=1)] = UPPER_QUANTILE
    """The probability that a run stays under its upper run time."""
    min_runs: Annotated[int, Field(ge=1, le=1000)] = 5
    """Finished runs that are needed before anything is learned from them."""
    use_stated: bool = True
    """Whether what the owner stated comes before what was learned."""
