"""What an attempt is closed with, in a ledger that is real."""

from datetime import UTC, datetime
from types import SimpleNamespace

import anyio
import pytest

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.attempts.settlement import Settlement
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import admit, at, make_attempt, make_run
from gpu_core.worker.attempts.closer import AttemptCloser
from gpu_core.worker.attempts.ending import Ending


class Infrastructure:
    """A sampler that left something broken."""

    host = "host-1"

    def __init__(self):
        self.asked = []

    async def gpu_summaries(self, _running):
        self.asked.append("gpus")
        raise OSError("the disk is gone")

    async def host_summary(self, _running):
        self.asked.append("host")
        raise OSError("the disk is gone")


def ending(reason=EndReason.COMPLETED):
    settlement = Settlement(
        end_reason=reason, is_charged_failure=False, next_state=None, message="It completed."
    )
    return Ending(settlement=settlement, released_at=at(1), exit_code=0, is_end_estimated=False)


@pytest.fixture
def ledger(tmp_path):
    """A ledger with an open attempt of run-1."""
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as opened:
        admit(opened, make_attempt())
        yield opened


def running():
    return SimpleNamespace(attempt=make_attempt(), record=make_run(), report=None)


def closed(ledger, act, *, logs_costs=False):
    """The attempts of the run after `act(closer)`, and what was asked meanwhile."""
    infrastructure = Infrastructure()
    closer = AttemptCloser(SimpleNamespace(), ledger, infrastructure, logs_costs=logs_costs)
    anyio.run(act, closer)
    return ledger.attempts_of(["run-1"]).get("run-1", ()), infrastructure.asked


def test_a_sampler_that_left_something_broken_keeps_no_end_from_being_settled(ledger, caplog):
    """Whatever reading it raises."""
    (attempt,), asked = closed(ledger, lambda closer: closer.close(running(), ending(), None))
    assert (attempt.end_reason, attempt.released_at) == (EndReason.COMPLETED, at(1))
    assert asked == ["gpus", "host"]
    assert "Failed to read GPU usage for " in caplog.text
    assert "Failed to read CPU usage for " in caplog.text


def test_an_end_that_could_not_be_settled_is_closed_without_asking_anything(ledger):
    (attempt,), asked = closed(
        ledger, lambda closer: closer.close_unmeasured(running(), ending(EndReason.CRASHED))
    )
    assert (attempt.end_reason, asked) == (EndReason.CRASHED, [])


def test_an_attempt_that_never_was_is_withdrawn(ledger):
    attempts, _ = closed(ledger, lambda closer: closer.close(running(), ending(None), None))
    assert attempts == ()


@pytest.mark.parametrize("logs_costs", [True, False])
def test_the_final_state_of_a_run_is_left_for_mlflow_where_costs_are_logged(ledger, logs_costs):
    async def act(closer):
        await closer.close(running(), ending(), None)
        await closer.finish_run("run-1", "Completed")

    closed(ledger, act, logs_costs=logs_costs)
    unlogged = ledger.unlogged_costs("gpus", "host-1", datetime.now(UTC))
    assert bool(unlogged) is logs_costs
