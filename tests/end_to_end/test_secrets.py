"""Secrets stand in every setting that may hold one, and no place that people read shows them."""

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from urllib.parse import urlsplit

import psutil
import sqlalchemy as sa

from gpu_core.adapters.ledger.engine import parse_url
from gpu_core.decisions.model.redaction import basic_credentials
from tests.end_to_end.conftest import FLOWS, processes_of
from tests.support.mlflow_listener import mlflow_listener
from tests.support.postgresql import new_database
from tests.support.prefect_stack import Pool
from tests.support.waiting import wait_for

# No other process of this machine has it while the story looks at what processes are given.
CANARY = f"canary-{token_hex(8)}"


class ProcessList:
    """Whatever processes of this machine were given as arguments while it watched."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "ProcessList":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            for process in psutil.process_iter():
                try:
                    self.seen.add(" ".join(process.cmdline()))
                except (psutil.Error, OSError):
                    continue


def setup(environment: Mapping[str, str], folder: Path, pool: str) -> str:
    """Let `prefect-gpu setup` make the pool's blocks; what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "gpu_core.cli", "setup", "--pool", pool], cwd=folder,
        env=dict(environment), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def pages(pool: Pool, *runs: str) -> str:
    """What Prefect's API has of these runs, and of everything that setup and worker made."""
    found: list[object] = []
    for run in runs:
        page = pool.run(run)
        # Its owner wrote these.
        del page["job_variables"]
        found += [page, pool.states(run), pool.logs(run)]
    with_secrets_hidden = {"include_secrets": False, "limit": 200}
    found += [
        pool.call("POST", "/artifacts/filter", {"limit": 200}),
        pool.call("POST", "/block_documents/filter", with_secrets_hidden),
        pool.call("POST", "/work_pools/filter", {}),
        pool.call("POST", "/events/filter", {"limit": 50}),
    ]
    return json.dumps(found)


def rows(ledger_url: str) -> str:
    """All that the ledger's database holds."""
    engine = sa.create_engine(parse_url(ledger_url))
    tables = sa.MetaData()
    with engine.connect() as connection:
        tables.reflect(connection)
        found = [repr(connection.execute(sa.select(t)).all()) for t in tables.tables.values()]
    engine.dispose()
    return " ".join(found)


def test_no_secret_is_shown_anywhere(
    prefect_on_postgresql, postgresql, new_pool, journal, tmp_path
):
    """And those that may have one get it: worker and runs log in at MLflow."""
    ledger_url = new_database(postgresql)
    password = urlsplit(ledger_url).password
    assert password is not None
    with (
        ProcessList() as processes,
        mlflow_listener() as mlflow,
    ):
        pool = new_pool()
        printed = setup(
            {
                **prefect_on_postgresql.environment,
                "PREFECT_GPU_LEDGER_URL": ledger_url,
                "PREFECT_GPU_MLFLOW_URI": f"http://ada:{CANARY}-mlflow@{mlflow.address}",
            },
            tmp_path,
            pool.name,
        )
        pool.ledger_url = ledger_url
        del pool.environment["PREFECT_INTEGRATIONS_GPU_LEDGER_URL"]  # the block has it
        pool.environment |= {
            "AWS_SECRET_ACCESS_KEY": f"{CANARY}-checkpoints",
            "GITHUB_TOKEN": f"{CANARY}-token-of-the-operator",
            "PREFECT_API_AUTH_STRING": f"ada:{CANARY}-auth",
            "PREFECT_API_DATABASE_CONNECTION_URL": f"postgresql+asyncpg://p:{CANARY}-db@db/prefect",
            "PREFECT_INTEGRATIONS_GPU_CHECKPOINT_SIGNING_KEY": f"{CANARY}-signing",
            "PREFECT_LOGGING_LEVEL": "DEBUG",
        }
        release = tmp_path / "release"
        good = pool.submit(
            pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(seconds=600, release=release)),
            "good",
            gpu_count=1,
        )
        # The flow says in its log and its state why this cannot be used.
        refused = pool.submit(
            pool.deploy(f"{FLOWS}:count_until_released", max_failures=1),
            "refused",
            {"folder": str(tmp_path)},
            gpu_count=1,
            checkpoint_uri=f"ftp://ada:{CANARY}-store@{'h' * 200}",
        )
        pool.start_worker(parent="usual")  # with arguments that the list of processes has
        wait_for(lambda: journal.entries("begin"), "the run began")
        environments = [process.environ() for process in processes_of(good)]
        release.touch()
        pool.wait_until(good, "Completed")
        pool.wait_until(refused, "Failed", "Crashed")
        wait_for(lambda: mlflow.refused, "the worker logged the run's cost")
        wait_for(lambda: "PERMISSION_DENIED" in pool.worker_log(), "the worker said so")

        shown = {
            "pages": pages(pool, good, refused),
            "ledger": rows(ledger_url),
            "log": pool.worker_log(),
            "MLflow": " ".join(mlflow.bodies),
            "setup": printed,
            "processes": " ".join(processes.seen),
        }

    for place, text in shown.items():
        hits = [text[max(0, at - 150) : at + 60] for at in _places(text, CANARY, password)]
        assert not hits, f"{place}: {hits}"
    assert "ftp://ada:***@" in shown["pages"]
    assert "set-tag" in shown["MLflow"]
    # A login uses the block's user.
    login = basic_credentials("ada", f"{CANARY}-mlflow")
    assert set(mlflow.authorizations) == {f"Basic {login}"}
    assert environments
    for environment in environments:
        have = {name for name, value in environment.items() if CANARY in value or password in value}
        assert have == {
            "AWS_SECRET_ACCESS_KEY",
            "MLFLOW_TRACKING_PASSWORD",
            "PREFECT_API_AUTH_STRING",
            "PREFECT_GPU_CHECKPOINT_SIGNING_KEY",
        }


def _places(text: str, *secrets: str) -> list[int]:
    logins = [basic_credentials("ada", f"{CANARY}-{of}") for of in ("mlflow", "auth")]
    return [text.find(form) for form in (*secrets, *logins) if form in text]
