"""The meaning of a flow run's tags for the scheduler: people set them in Prefect's UI or CLI."""

from collections.abc import Collection

from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import Hold

HOLD_TAG = "gpu:hold"
"""The run waits until the tag is taken away; one that runs already continues."""
FIRST_TAG = "gpu:first"
"""The run comes before all that are not tagged so, in any policy's order."""


def held_by_tag(tags: Collection[str]) -> Hold | None:
    """Does a person hold a run with these tags back?"""
    if HOLD_TAG not in tags:
        return None
    return Hold(
        reason=Reason.HELD,
        summary=f"Held by a user with the tag {HOLD_TAG!r}.",
        resolution=(
            "To release the run, remove the tag in Prefect or run `prefect-gpu release RUN`."
        ),
    )
