"""`prefect-gpu quickstart`: runs on one machine, with checks, and stops all it started."""

import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import psutil
from rich.console import Console

from gpu_core.cli.quickstart.progress import WaitIndicator
from gpu_core.cli.quickstart.services import Addresses, Service, Services, free_port
from gpu_core.cli.shared.terminal import console
from gpu_core.decisions.model.errors import InvalidInput

_MARKER = "prefect-gpu-quickstart"
# A server that lives may be slow: it has minutes on a busy machine, and ends the wait if it dies.
_UP_S = 600.0
_WIDTH = 100
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Variables of the user's own server, profile and MLflow are removed.
_FOREIGN = ("PREFECT_", "MLFLOW_")


def quickstart(folder: Path, *, keep: bool) -> int:
    """Run the quickstart. Returns 0 if everything in it was as it should be, else 1.

    Args:
        folder: Where everything is kept; made anew each time.
        keep: Leave the servers running at the end, until Ctrl-C.

    Raises:
        InvalidInput: This is no clone of the project, or the folder has other contents.
    """
    # One width for a terminal, a pipe and the documentation.
    out = console(_WIDTH, has_markup=True)
    folder = folder.resolve()
    if not Path("prefect.yaml").is_file() or not Path("flows/train_digits.py").is_file():
        raise InvalidInput(
            "quickstart",
            "must be run from a clone of the repository",
            remedy="change to the root directory of the repository and try again",
        )
    _make_anew(folder)
    _use_own_world(folder)
    keep = keep or os.environ.get("KEEP") == "1"
    # SIGINT too: a shell's background job is started with it ignored, and so would its servers be.
    for number in _STOP_SIGNALS:
        signal.signal(number, _interrupt)
    is_right = False
    try:
        with Services(folder / "logs", os.environ) as services:
            try:
                is_right = _story(out, services, folder, keep=keep)
                if keep:
                    out.print("\nThe servers are still running. Press Ctrl-C to stop them.")
                    threading.Event().wait()
            except KeyboardInterrupt:
                out.print("\nStopping.")
            finally:
                # A second Ctrl-C must not leave anything behind.
                _ignore_signals()
                with WaitIndicator(out, "Stopping servers"):
                    services.stop_all()
    finally:
        # Only now: a worker that lives would give a killed run its next attempt.
        _end_runs(folder)
    return 0 if is_right else 1


def _story(out: Console, services: Services, folder: Path, *, keep: bool) -> bool:
    addresses = Addresses(
        prefect=f"http://127.0.0.1:{free_port()}", mlflow=f"http://127.0.0.1:{free_port()}"
    )
    os.environ["PREFECT_API_URL"] = f"{addresses.prefect}/api"
    services.use(os.environ)
    out.rule("[bold]1. Servers[/]", align="left")
    with WaitIndicator(out, "Starting Prefect server and MLflow"):
        prefect, mlflow = _start_servers(services, folder, addresses)
        # Prefect reads its settings when it is first imported, so that it is imported after them.
        from gpu_core.cli.quickstart.demo import play_story
        from gpu_core.cli.setup.command import setup
        from gpu_core.cli.setup.options import SetupOptions

        services.wait_until_up(prefect, f"{addresses.prefect}/api/health", _UP_S)
        out.print(f"  Prefect   {addresses.prefect}")
        services.wait_until_up(mlflow, f"{addresses.mlflow}/health", _UP_S)
        out.print(f"  MLflow    {addresses.mlflow}")
    out.rule("[bold]2. prefect-gpu setup[/]", align="left")
    options = SetupOptions(
        pool="gpu",
        policy_path=Path("deployments/policy.yaml"),
        prefect_file=Path("prefect.yaml"),
        ledger_url=f"sqlite:///{folder / 'ledger.db'}",
        mlflow_uri=addresses.mlflow,
        checkpoint_uri=str(folder / "checkpoints"),
    )
    with WaitIndicator(out, "Creating work pool, work queues, blocks and deployments"):
        setup(options)
    services.start(
        "worker",
        [
            sys.executable,
            "-m",
            "prefect",
            "worker",
            "start",
            "--pool",
            "gpu",
            "--name",
            "quickstart",
        ],
    )
    return play_story(out, services, folder, addresses, keep=keep)


def _start_servers(
    services: Services, folder: Path, addresses: Addresses
) -> tuple[Service, Service]:
    prefect = services.start(
        "prefect-server",
        [
            *(sys.executable, "-m", "prefect", "server", "start"),
            *("--host", "127.0.0.1", "--port", addresses.prefect.rsplit(":", 1)[1]),
        ],
    )
    mlflow = services.start(
        "mlflow",
        [
            *(sys.executable, "-m", "mlflow", "server"),
            *("--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"),
            *("--artifacts-destination", str(folder / "mlflow-artifacts")),
            *("--host", "127.0.0.1", "--port", addresses.mlflow.rsplit(":", 1)[1]),
            *("--workers", "1"),
        ],
    )
    return prefect, mlflow


def _make_anew(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(
            "--folder",
            "is not a directory",
            got=str(folder),
            remedy="please specify an empty directory",
        )
    if folder.exists() and not (folder / _MARKER).exists() and any(folder.iterdir()):
        raise InvalidInput(
            "--folder",
            "contains files that were not created by the quickstart",
            got=str(folder),
            remedy="please specify an empty directory",
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / _MARKER).write_text(
        "Created by `prefect-gpu quickstart`. This directory is "
        "deleted when you run the quickstart again.\n"
    )


def _use_own_world(folder: Path) -> None:
    for name in list(os.environ):
        if name.startswith(_FOREIGN):
            del os.environ[name]
    os.environ.update(
        {
            "PREFECT_HOME": str(folder / "prefect"),
            "PREFECT_PROFILES_PATH": str(folder / "prefect" / "profiles.toml"),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_INTEGRATIONS_GPU_POLICY_PATH": str(Path("deployments/policy.yaml").resolve()),
            "PREFECT_INTEGRATIONS_GPU_STATE_DIR": str(folder / "gpu"),
            "PREFECT_LOGGING_LEVEL": "INFO",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
            "DO_NOT_TRACK": "1",
            "PYTHONUNBUFFERED": "1",
        }
    )


def _end_runs(folder: Path) -> None:
    """Runs outlive their worker by design; those of this quickstart may not outlive it."""
    mine = [process for process in psutil.process_iter() if _belongs_to(process, folder)]
    for process in mine:
        process.kill()
    psutil.wait_procs(mine, timeout=5)


def _belongs_to(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.environ().get("PREFECT_GPU_RUN_DIR", "").startswith(f"{folder}{os.sep}")
    except (psutil.Error, OSError):
        return False


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    # Once: a second signal would come into the midst of what the first one has begun.
    _ignore_signals()
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    for number in _STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
