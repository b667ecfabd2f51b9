"""Policy section `retention`: how long the ledger keeps what no cost is made of."""

from typing import Annotated

from pydantic import Field

from gpu_core.decisions.model.section import Duration, Section

_MONTH_S = 31 * 86_400


class RetentionPolicy(Section):
    """Settings for how long records that do not affect costs are kept in the ledger. Runs, attempts
    and machines are kept regardless of these settings.
    """

    decisions_s: Annotated[Duration, Field(ge=_MONTH_S)] | None = Field(
        default=None, alias="decisions"
    )
    """How long records of the decision log are kept, counted from the end of the month. Older
    records are deleted by `close-month`, and signed anchors remain in their place. Must be at least
    31 days. If not set, records are never deleted."""
