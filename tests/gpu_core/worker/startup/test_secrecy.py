"""Nothing that a worker logs shows what it knows to be secret."""

import io
import logging

import anyio
import pytest
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_KEY,
    PREFECT_CLIENT_CUSTOM_HEADERS,
    temporary_settings,
)

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.redaction import redact
from gpu_core.testing.builders.workloads import make_node
from gpu_core.worker.attempts.state import StartFailure, StartFailureKind
from gpu_core.worker.startup.secrecy import (
    Secrets,
    _Hiding,
    hidden_in_logs,
    prefect_keys,
    secrets_of,
)
from gpu_core.worker.startup.settings import GpuWorkerSettings
from tests.support.pool import FakePrefect, OnePool


@pytest.fixture
def log():
    logger, stream = logging.getLogger("prefect.gpu.secrecy-test"), io.StringIO()
    handler = logging.StreamHandler(stream)
    logger.addHandler(handler)
    yield logger, stream
    logger.removeHandler(handler)


def fail(text):
    try:
        raise ConnectionError(text)
    except ConnectionError as error:
        raise RuntimeError("the ledger is away") from error


def test_the_secrets_of_the_settings_are_known():
    """The worker hides them from its start on; a changed key and the one before it alike."""
    keys = "a-new-key-0123456789 an-old-key-0123456789"
    settings = GpuWorkerSettings(
        ledger_url="postgresql://gpu:p4ssw0rd@db/ledger", checkpoint_signing_key=keys
    )
    assert {"p4ssw0rd", *keys.split()} <= {*settings.secrets()}
    assert not any(secret in repr(settings) for secret in keys.split())
    assert GpuWorkerSettings().secrets() == ()


def test_messages_and_tracebacks_lose_their_secrets_and_nothing_else(log):
    logger, stream = log
    secrets = Secrets()
    secrets.add(["canary-1"])
    with hidden_in_logs(secrets):
        logger.warning("%s is not %s", "canary-1", "http://ada:other@mlflow")
        try:
            fail("cannot reach db with canary-1")
        except RuntimeError:
            logger.exception("This cycle failed")
        logger.warning("%d runs wait", 3)
    logger.warning("canary-1")
    hidden, after = stream.getvalue().split("3 runs wait")
    assert "canary" not in hidden
    assert "other" not in hidden
    assert "*** is not http://ada:***@mlflow" in hidden
    assert "ConnectionError: cannot reach db with ***" in hidden
    assert "RuntimeError: the ledger is away" in hidden
    assert "canary-1" in after


def test_the_keys_of_prefects_api_are_known():
    settings = {
        PREFECT_API_KEY: "key-1",
        PREFECT_API_AUTH_STRING: "ada:secret-1",
        PREFECT_CLIENT_CUSTOM_HEADERS: {"CF-Access-Client-Secret": "header-1"},
    }
    with temporary_settings(settings):
        found = set(prefect_keys())
    assert {"key-1", "ada:secret-1", "secret-1", "YWRhOnNlY3JldC0x", "header-1"} <= found


def test_a_log_call_of_a_library_that_is_wrong_raises_nothing():
    """Its handler reports it on standard error, as without the filter."""
    record = logging.LogRecord("lib", logging.INFO, "lib.py", 1, "%d runs", ("no number",), None)
    assert _Hiding(Secrets()).filter(record)


def test_why_an_attempt_ended_is_said_without_passwords(tmp_path):
    """On the page of its run, and in the ledger."""
    prefect = FakePrefect()
    prefect.submit(1, {})

    async def story(ledger):
        pool = OnePool(tmp_path, ledger, prefect, [make_node("n1", gpus=1)], hidden=redact)
        async with pool.scheduling():
            (run,) = await pool.cycle()
            running = pool.scheduler._attempts.of_run(str(run))
            why = "no connection to postgresql://u:pa55@db/x"
            failure = StartFailure(StartFailureKind.REFUSED, why)
            pool.scheduler.settler.end_unstarted(running, failure)
            while pool.holding():
                await anyio.wait_all_tasks_blocked()
            return ledger.attempts_of([str(run)])[str(run)]

    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        (attempt,) = anyio.run(story, ledger)
    assert "no connection to postgresql://u:***@db/x" in attempt.end_message
    assert "pa55" not in prefect.message(1)
    assert "u:***@db" in prefect.message(1)


def test_keys_of_stores_in_the_environment_are_known():
    environment = {"AWS_SECRET_ACCESS_KEY": "a-key", "MLFLOW_TRACKING_TOKEN": "", "PATH": "/bin"}
    assert secrets_of(environment) == ("a-key",)
