"""A real Prefect server, and GPU workers on it as processes that tests may kill."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from uuid import uuid4

import httpx
import psutil

from gpu_core.adapters.ledger import Ledger
from gpu_core.cli.quickstart.services import Service, Services, free_port
from gpu_core.decisions.model.attempts import Attempt, RunRecord
from tests.support import signals
from tests.support.prefect_databases import new_postgresql_database, new_sqlite_database
from tests.support.preloaded import fork
from tests.support.waiting import wait_for

# A server that ends while it starts fails at once. With a load of 15 one took over 240 s.
_UP_S = 600.0

# Prefect's server on SQLite may stand still for its busy timeout of 60 s when a client went away in
# the middle of a request, as stopped and killed workers do.
_ANSWER_S = 600.0


class Processes(Services):
    """Services, some of which are forked."""

    def fork(self, name: str, arguments: Sequence[str]) -> Service:
        """Start a command of Prefect from a process that has imported it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._folder / f"{name}.log"
        log.touch()
        process = cast(
            "subprocess.Popen[bytes]", fork("prefect", arguments, self._environment, log)
        )
        service = Service(name, process, log)
        self._started.append(service)
        return service


@dataclass(slots=True)
class PrefectServer:
    """A started server and the world that its clients live in."""

    api_url: str
    environment: Mapping[str, str]
    services: Processes
    folder: Path
    arguments: Sequence[str]
    service: Service

    def restart(self) -> None:
        """Stop it and start it again at the same address; returns when it answers."""
        self.stop()
        self.start()

    def stop(self) -> None:
        """Stop it: who asks at its address is refused."""
        self.services.stop(self.service)

    def start(self) -> None:
        """Start it again at the same address; returns when it answers."""
        self.services.use(self.environment)
        self.service = self.services.fork(self.service.name, self.arguments)
        self.services.wait_until_up(self.service, f"{self.api_url}/health", _UP_S)

    def client(self) -> httpx.Client:
        """A plain HTTP client: tests look at the server from outside."""
        return httpx.Client(
            base_url=self.api_url, timeout=_ANSWER_S, transport=_AgainWhereUnavailable()
        )


class _AgainWhereUnavailable(httpx.HTTPTransport):
    """Repeats what the server refused because SQLite was locked; nothing of it was done."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        deadline = time.monotonic() + _ANSWER_S
        while True:
            response = super().handle_request(request)
            is_refused = response.status_code == httpx.codes.SERVICE_UNAVAILABLE
            if not is_refused or time.monotonic() > deadline:
                return response
            response.close()
            time.sleep(0.2)


def clean_environment(folder: Path) -> dict[str, str]:
    """This process's environment without any user's Prefect or MLflow settings."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PREFECT_", "MLFLOW_", "GPU_"))
    }
    return ours | {
        "PREFECT_HOME": str(folder / "home"),
        "PREFECT_PROFILES_PATH": str(folder / "home" / "profiles.toml"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_LOGGING_LEVEL": "INFO",
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
    }


def start_server(
    services: Processes,
    folder: Path,
    database_url: str | None = None,
    name: str = "prefect-server",
    settings: Mapping[str, str] | None = None,
) -> PrefectServer:
    """Start a Prefect server on a free loopback port; on SQLite without a database's address."""
    port = free_port()
    api_url = f"http://127.0.0.1:{port}/api"
    # The server's pages call the API at this address too.
    environment = clean_environment(folder) | {"PREFECT_API_URL": api_url, **(settings or {})}
    if database_url is None:
        new_sqlite_database(folder / "home" / "prefect.db")
    else:
        environment["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = database_url
        # By default 5 s, which a busy machine reaches: the server then answers 500.
        environment["PREFECT_SERVER_DATABASE_CONNECTION_TIMEOUT"] = str(_ANSWER_S)
    services.use(environment)
    arguments = ("server", "start", "--host", "127.0.0.1", "--port", str(port))
    server = services.fork(name, arguments)
    services.wait_until_up(server, f"{api_url}/health", _UP_S)
    return PrefectServer(api_url, environment, services, folder, arguments, server)


@contextmanager
def new_server(
    folder: Path, postgresql: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[PrefectServer]:
    """A Prefect server while the context lasts.

    Args:
        folder: Where it keeps its logs, its home and, without PostgreSQL, its database.
        postgresql: The address of a PostgreSQL server, on which it gets a database of its own.
        settings: Settings of Prefect, as variables, in addition to the usual ones.
    """
    url = None
    if postgresql is not None:
        created = new_postgresql_database(postgresql)
        url = created.replace("postgresql:", "postgresql+asyncpg:", 1)
    with Processes(folder / "logs", clean_environment(folder)) as services:
        yield start_server(services, folder, url, settings=settings)


# What takes a quiet machine a minute may take ten where other work uses all cores.


# The job variable of flows where a story is not about how they are started. The default,
# `prefect flow-run execute`, imports Prefect three times: in what waits for the flow, in what
# fetches its code, and in what runs it.
ENGINE = {"command": "python -m prefect.engine"}

_LOG_LINES = 80

# A fork has what the process that it comes from read of them.
_READ_AT_START = ("LD_LIBRARY_PATH", "PYTHONPATH")


class Pool:
    """One GPU work pool of a server, with its policy, ledger, worker and runs.

    Args:
        server: The Prefect server.
        folder: Where the pool's state is kept.
        policy: The policy, as YAML.
        worker_type: The type of the pool and its workers, as Prefect knows it.
        poll_s: How often its workers ask the server for runs.
        edited: Edits the pool's base job template, as a platform team does.
        environment: What its workers find in their environment in addition to the usual.
        ledger_url: Its ledger; by default an SQLite file in its folder.
    """

    def __init__(
        self,
        server: PrefectServer,
        folder: Path,
        policy: str,
        *,
        worker_type: str = "gpu-process",
        poll_s: int = 2,
        edited: Callable[[dict], dict] = lambda template: template,
        environment: Mapping[str, str] | None = None,
        ledger_url: str | None = None,
    ) -> None:
        self.name = f"gpu-{uuid4().hex[:8]}"
        self.folder = folder
        self.ledger_url = ledger_url or f"sqlite:///{folder / 'ledger.db'}"
        self.policy_path = folder / "policy.yaml"
        self.state_dir = folder / "gpu"
        self.policy_path.write_text(policy)
        self._server = server
        self._worker_type = worker_type
        self._workers: list[Service] = []
        self.ui_url = server.api_url.removesuffix("/api")
        self._http = server.client()
        self._deployments: dict[str, str | None] = {}
        self._opened: tuple[str, Ledger] | None = None
        self.environment = {
            **server.environment,
            "PREFECT_INTEGRATIONS_GPU_POLICY_PATH": str(self.policy_path),
            "PREFECT_INTEGRATIONS_GPU_STATE_DIR": str(self.state_dir),
            "PREFECT_INTEGRATIONS_GPU_LEDGER_URL": self.ledger_url,
            "PREFECT_INTEGRATIONS_GPU_CHECKPOINT_URI": str(folder / "checkpoints"),
            "PREFECT_WORKER_QUERY_SECONDS": str(poll_s),
            **(environment or {}),
        }
        self._edited = edited
        try:
            self._create()
        except BaseException:
            self._http.close()
            raise

    def _create(self) -> None:
        # Prefect takes seconds to import, and only tests that run need it.
        from prefect.workers.base import BaseWorker

        worker_class = BaseWorker.get_worker_class_from_type(self._worker_type)
        assert worker_class is not None, f"no worker of type {self._worker_type}"
        self.call(
            "POST",
            "/work_pools/",
            {
                "name": self.name,
                "type": self._worker_type,
                "base_job_template": self._edited(worker_class.get_default_base_job_template()),
            },
        )
        for priority, queue in enumerate(("critical", "high", "medium", "low"), start=1):
            self.call(
                "POST",
                f"/work_pools/{self.name}/queues",
                {"name": queue, "priority": priority},
            )

    def make_again(self) -> None:
        """Delete the pool and make it again under its name, with its queues and its deployments."""
        self.call("DELETE", f"/work_pools/{self.name}")
        self._create()
        for deployment, queue in self._deployments.items():
            body = {"work_pool_name": self.name, "work_queue_name": queue}
            self.call("PATCH", f"/deployments/{deployment}", body)

    # -- Prefect's API ---------------------------------------------------------------------------

    def call(self, method: str, path: str, body: object = None) -> object:
        """One call of Prefect's API.

        Raises:
            AssertionError: The server refused; with its words.
        """
        response = self._http.request(method, path, json=body)
        assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
        return response.json() if response.content else None

    def deploy(self, entrypoint: str, queue: str | None = "medium", **variables: object) -> str:
        """A deployment of a flow of `tests/end_to_end/flows.py` on this pool; its id."""
        flow = self.call("POST", "/flows/", {"name": entrypoint.rsplit(":", 1)[1]})
        deployment = self.call(
            "POST",
            "/deployments/",
            {
                "name": f"{self.name}-{uuid4().hex[:6]}",
                "flow_id": flow["id"],
                "work_pool_name": self.name,
                "work_queue_name": queue,
                "entrypoint": entrypoint,
                # With a path and no step Prefect copies the whole folder for every run.
                "pull_steps": [
                    {
                        "prefect.deployments.steps.set_working_directory": {
                            "directory": str(Path.cwd())
                        }
                    }
                ],
                "job_variables": variables,
                "parameter_openapi_schema": {},
                "enforce_parameter_schema": False,
                "concurrency_options": None,
            },
        )
        self._deployments[str(deployment["id"])] = queue
        return str(deployment["id"])

    def submit(
        self, deployment: str, name: str, parameters: dict[str, object] | None = None, **variables
    ) -> str:
        """Create a flow run; its id."""
        run = self.call(
            "POST",
            f"/deployments/{deployment}/create_flow_run",
            {"name": name, "parameters": parameters or {}, "job_variables": variables},
        )
        return str(run["id"])

    def run(self, flow_run_id: str) -> dict:
        """The flow run as Prefect has it."""
        return self.call("GET", f"/flow_runs/{flow_run_id}")

    def state(self, flow_run_id: str) -> str:
        """The name of the run's state."""
        return self.run(flow_run_id)["state"]["name"]

    def count(self, flow_run_ids: Sequence[str], state: str) -> int:
        """How many of these runs are in the state of this name?"""
        body = {
            "flow_runs": {"id": {"any_": list(flow_run_ids)}, "state": {"name": {"any_": [state]}}}
        }
        return self.call("POST", "/flow_runs/count", body)

    def message(self, flow_run_id: str) -> str:
        """The message of the run's state."""
        return self.run(flow_run_id)["state"]["message"] or ""

    def states(self, flow_run_id: str) -> list[dict]:
        """All states that the run went through, the first one first."""
        found = self.call("GET", f"/flow_run_states/?flow_run_id={flow_run_id}")
        return sorted(found, key=lambda state: state["timestamp"])

    def wait_until(self, flow_run_id: str, *names: str, timeout_s: float = 60.0) -> None:
        """Wait until the run is in one of these states."""
        wait_for(
            lambda: self.state(flow_run_id) in names,
            lambda: f"run {flow_run_id} is {' or '.join(names)}: {self._history(flow_run_id)}",
            timeout_s,
        )

    def print_runs(self, flow_run_ids: Iterable[str]) -> None:
        """The states and logs of these runs, which pytest shows where a test failed."""
        for run in flow_run_ids:
            print(f"-- run {run}: {self._history(run)}")
            print("\n".join(self.logs(run)[-_LOG_LINES:]))

    def _history(self, flow_run_id: str) -> str:
        states = self.states(flow_run_id)
        shown = [f"{state['timestamp']} {state['name']}: {state['message']}" for state in states]
        return "\n  ".join([f"it is {self.state(flow_run_id)}", *shown])

    # -- the worker ------------------------------------------------------------------------------

    def start_worker(
        self,
        parent: str | None = None,
        worker_type: str | None = None,
        options: Sequence[str] = (),
    ) -> Service:
        """Start a worker as a process of its own.

        Args:
            parent: What its parent did to its signals: `usual`, `nohup` or `deaf`. None: it is
                forked from a process that has imported all it needs, unless Python or the system's
                loader would find other variables at their start.
            worker_type: Its type, where that is not the pool's.
            options: More options of `prefect worker start`.
        """
        number = len(self._workers) + 1
        services, name = self._server.services, f"{self.name}-worker-{number}"
        services.use(self.environment)
        arguments = [
            *("worker", "start", "--pool", self.name, "--type", worker_type or self._worker_type),
            *("--name", f"{self.name}-{number}"),
            *options,
        ]
        is_like_here = all(self.environment.get(n) == os.environ.get(n) for n in _READ_AT_START)
        if parent is None and is_like_here:
            service = services.fork(name, arguments)
        else:
            command = [sys.executable, "-m", "prefect", *arguments]
            service = services.start(name, signals.under(parent or "usual", command))
        self._workers.append(service)
        return service

    def kill_worker(self) -> None:
        """Kill -9 the newest worker: no line of it runs any more."""
        self.signal_worker(signal.SIGKILL)
        self._workers[-1].process.wait()

    def signal_worker(self, number: signal.Signals) -> None:
        """Send this signal to the newest worker and what it is made of."""
        os.killpg(self._workers[-1].process.pid, number)

    def stop_worker(self) -> None:
        """Stop the newest worker as an operator does."""
        self._server.services.stop(self._workers[-1])

    def worker_lives(self) -> bool:
        """Does the newest worker live?"""
        return self._workers[-1].process.poll() is None

    def worker_log(self) -> str:
        """What all workers printed."""
        return "".join(worker.log.read_text() for worker in self._workers)

    # -- the ledger ------------------------------------------------------------------------------

    def logs(self, flow_run_id: str) -> list[str]:
        """The lines of the run's log in Prefect, the first one first."""
        body = {"logs": {"flow_run_id": {"any_": [flow_run_id]}}, "sort": "TIMESTAMP_ASC"}
        return [line["message"] for line in self.call("POST", "/logs/filter", body)]

    def attempts(self, flow_run_id: str) -> tuple[Attempt, ...]:
        """The run's attempts, from the ledger."""
        return self.attempts_of([flow_run_id])[flow_run_id]

    def attempts_of(self, flow_run_ids: Sequence[str]) -> dict[str, tuple[Attempt, ...]]:
        """The attempts of each of these runs, from the ledger."""
        return self._ledger().attempts_of(flow_run_ids)

    def record(self, flow_run_id: str) -> RunRecord:
        """The run itself, from the ledger, which has it."""
        found = self._ledger().run(flow_run_id)
        assert found is not None
        return found

    def _ledger(self) -> Ledger:
        """Its ledger, which stays open: stories look ten times a second whether a run has ended."""
        if self._opened is None or self._opened[0] != self.ledger_url:
            self._close_ledger()
            self._opened = (self.ledger_url, Ledger.open(self.ledger_url))
        return self._opened[1]

    def _close_ledger(self) -> None:
        if self._opened is not None:
            self._opened[1].close()
            self._opened = None

    def close(self) -> None:
        """Stop the worker and every process of this pool's runs."""
        for worker in self._workers:
            self._server.services.stop(worker)
        mine = self.processes()
        for process in mine:
            process.kill()
        psutil.wait_procs(mine, timeout=5)
        self._close_ledger()
        self._http.close()

    def processes(self) -> list[psutil.Process]:
        """The living processes of this pool's runs."""
        return [process for process in psutil.process_iter() if self._owns(process)]

    def print_logs(self) -> None:
        """The ends of its workers' logs, which pytest shows where a test failed."""
        for worker in self._workers:
            print(f"-- the end of {worker.log.name}")
            print("\n".join(worker.log.read_text().splitlines()[-_LOG_LINES:]))

    def _owns(self, process: psutil.Process) -> bool:
        try:
            run_dir = process.environ().get("PREFECT_GPU_RUN_DIR", "")
        except (psutil.Error, OSError):
            return False
        return run_dir.startswith(str(self.folder))
