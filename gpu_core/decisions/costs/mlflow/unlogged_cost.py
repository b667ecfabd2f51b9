"""A run whose cost is not in MLflow yet."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

TAKEN_OVER_AFTER = timedelta(days=1)
"""From then on any worker of the pool logs the cost: the machine of the attempt may be gone."""


class CostChange(StrEnum):
    """The reason why the cost in MLflow is written."""

    ENDED = "ended"
    """An attempt ended, or the run."""
    RECONCILED = "reconciled"
    """A provider's bill says something new of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloggedCost:
    """A run whose cost is not in MLflow yet."""

    flow_run_id: str
    pool: str
    host: str
    """The host whose worker logs it."""
    cause: CostChange
    since: datetime
    change_id: str
    """A new one for each change: a cost that changes while it is logged is logged again."""
