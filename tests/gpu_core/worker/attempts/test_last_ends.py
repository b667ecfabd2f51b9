"""Why the last attempts of waiting runs ended, from this worker and from the one before."""

import anyio

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import at, make_attempt
from gpu_core.worker.attempts.last_ends import LastEnds


class Ledger:
    """Has these attempts of each run, and notes what it is asked."""

    def __init__(self, **attempts):
        self.attempts = attempts
        self.asked = []

    def attempts_of(self, flow_run_ids):
        self.asked.append(list(flow_run_ids))
        return {run_id: self.attempts.get(run_id, ()) for run_id in flow_run_ids}


def ended(number, reason, message):
    return make_attempt(
        number=number, started_at=at(0), released_at=at(1), end_reason=reason, end_message=message
    )


def test_the_last_attempt_that_had_gpus_counts():
    attempts = (
        ended(1, EndReason.PREEMPTED, "Preempted by 'b'."),
        ended(2, EndReason.POSTPONED, "No room."),
    )
    ends = LastEnds(Ledger(a=attempts))
    anyio.run(ends.learn, ["a", "new"])
    assert ends.messages == {"a": "Preempted by 'b'."}


def test_what_this_worker_saw_end_is_not_read_again():
    ledger = Ledger(a=(ended(1, EndReason.PREEMPTED, "An earlier end."),))
    ends = LastEnds(ledger)
    ends.note("a", "Its node was lost.")
    anyio.run(ends.learn, ["a"])
    assert (ledger.asked, ends.messages) == ([], {"a": "Its node was lost."})
    ends.forget("a")
    assert ends.messages == {}
