"""What an attempt is started with, from the ledger of those before it."""

from datetime import timedelta
from types import SimpleNamespace

import anyio
import pytest
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.policy.memory import MemoryPolicy
from gpu_core.decisions.policy.policy import Policy
from gpu_core.testing.builders.attempts import NOON, make_attempt, make_run, record_ended
from gpu_core.worker.attempts.launch import Launching

RUN = "11111111-1111-1111-1111-111111111111"
OUT_OF_MEMORY = "Failure 1 of 3: OutOfMemoryError: CUDA out of memory; trying again."


@pytest.mark.parametrize(
    ("action", "number", "want"),
    [
        pytest.param("shrink", 1, 1, id="the first attempt"),
        pytest.param("shrink", 2, 2, id="after one that ran out of memory"),
        pytest.param("off", 2, 1, id="off by policy"),
    ],
)
def test_the_micro_batch_is_divided_after_a_want_of_memory(tmp_path, action, number, want):
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    try:
        ended = make_attempt(
            RUN,
            number=1,
            released_at=NOON + timedelta(minutes=5),
            end_reason=EndReason.FAILED,
            end_message=OUT_OF_MEMORY,
            is_charged_failure=True,
        )
        record_ended(ledger, ended)
        launching = Launching(None, "gpus", None, None, ledger, None, None)
        running = SimpleNamespace(
            attempt=make_attempt(RUN, number=number), record=make_run(RUN), awaited_kinds=()
        )
        policy = Policy(version=1, memory=MemoryPolicy(action=action))
        with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):
            got = anyio.run(launching._micro_batch_divisor, running, policy)
    finally:
        ledger.close()
    assert got == want
