"""What follows from the reason for which an attempt released its GPUs."""

import pytest

from gpu_core.decisions.model.attempts import EndReason

REQUESTED = {
    "Cancelled",
    "Preempted",
    "Interrupted",
    "TimedOut",
    "BudgetSpent",
    "BudgetHeld",
    "Idle",
    "Hung",
    "Postponed",
}
RESUMES = {"Preempted", "BudgetHeld", "Hung", "Interrupted", "Postponed", "Suspended"}
EXCUSABLE = {"Failed", "Crashed", "Interrupted"}


@pytest.mark.parametrize("reason", EndReason)
def test_every_reason_says_what_follows(reason):
    assert reason.is_requested is (reason in REQUESTED)
    assert reason.resumes is (reason in RESUMES)
    assert reason.is_excusable is (reason in EXCUSABLE)
    assert reason.has_run is (reason != "Postponed")
