"""A reason for which cycles fail is said once, and again when it is back."""

import logging

import httpx

from gpu_core.adapters.ledger import LedgerError
from gpu_core.worker.operations.cycle_failures import CycleFailures

LOG = logging.getLogger("prefect.gpu.test")


def test_what_is_away_is_said_once_until_it_is_back(caplog):
    """Not with a traceback in each cycle."""
    failures = CycleFailures("gpu", "gpu-process", str)
    for _ in range(3):
        failures.note(
            LedgerError("cannot open the ledger: Connection refused"), LOG, is_scheduling=False
        )
    failures.note(LedgerError("cannot open the ledger: no route"), LOG, is_scheduling=False)
    assert [record.exc_info for record in caplog.records] == [None, None]
    failures.note(LookupError("a mistake of ours"), LOG, is_scheduling=False)
    assert caplog.records[-1].exc_info is not None


def answered(status, path):
    request = httpx.Request("POST", f"http://127.0.0.1:4200/api{path}")
    response = httpx.Response(status, request=request)
    return httpx.HTTPStatusError("no", request=request, response=response)


def test_a_pool_that_is_deleted_is_said_once_with_the_command_that_makes_it_again(caplog):
    failures = CycleFailures("my gpus", "gpu-process", str)
    missing = answered(404, "/work_pools/my%20gpus/get_scheduled_flow_runs")
    for _ in range(3):
        failures.note(missing, LOG, is_scheduling=True)
    (record,) = caplog.records
    assert record.exc_info is None
    assert "'my gpus' no longer exists" in record.getMessage()
    assert "prefect-gpu setup --pool 'my gpus' --type gpu-process" in record.getMessage()


def test_cycles_that_fail_alike_are_said_once_and_again_after_one_that_did_not(caplog):
    failures = CycleFailures("gpu", "gpu-process", str)
    one, other = answered(404, "/work_pools/others/queues"), ValueError("two")
    for error in (one, one, other, other, one):
        failures.note(error, LOG, is_scheduling=True)
    assert len(caplog.records) == 3
    assert all(record.exc_info for record in caplog.records)


def test_a_failure_is_news_again_after_a_cycle_that_did_not_fail(caplog):
    failures = CycleFailures("gpu", "gpu-process", str)
    for _ in range(2):
        failures.note(ValueError("two"), LOG, is_scheduling=True)
        failures.note_success()
    assert len(caplog.records) == 2
