"""Policy section `retention`: how long the ledger keeps what no cost is made of."""

from typing import Annotated

from pydantic import Field

from gpu_core.decisions.model.section import Duration, Section

_MONTH_S = 31 * 86_400


class RetentionPolicy(Section):
    """The age up to which the ledger keeps records that no cost depends on.

    Runs, attempts and machines stay.
    """

    decisions_s: Annotated[Duration, Field(ge=_MONTH_S)] | None = Field(
        default=None, alias="decisions"
    )
    """The age up to which records of the log of decisions are kept, counted from the end of a
    month. `close-month` purges older ones, and leaves signed anchors. 31 days at least. None: for
    good."""
