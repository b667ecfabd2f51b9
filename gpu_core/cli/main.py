"""`prefect-gpu`: the commands and their options. A command's module is loaded when it is used."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from gpu_core.decisions.errors import GpuSchedulingError, InvalidInput

DONE, NO, WRONG_INPUT = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code; wrong input is one clear line on stderr."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except GpuSchedulingError as error:
        print(f"prefect-gpu {options.command}: {error}", file=sys.stderr)
        return WRONG_INPUT if isinstance(error, InvalidInput) else NO


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="prefect-gpu", description="GPU scheduling for Prefect.")
    parser.add_argument(
        "--version", action="version", version=f"prefect-gpu {version('prefect-gpu')}"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_quickstart(commands)
    _add_setup(commands)
    return parser


def _add_quickstart(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = commands.add_parser(
        "quickstart",
        help="the whole story on this machine: queue, preempt, resume, cost",
        description=(
            "Start a Prefect server, MLflow and a GPU worker in a folder of their own, run real "
            "work through a GPU pool, check that a preempted training resumes exactly, and stop "
            "everything again."
        ),
    )
    command.add_argument(
        "--folder", type=Path, default=Path(".quickstart"), help="where everything is kept"
    )
    command.add_argument(
        "--keep", action="store_true", help="keep the servers up afterwards (also: KEEP=1)"
    )
    command.set_defaults(run=_quickstart)


def _add_setup(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = commands.add_parser(
        "setup",
        help="create or update pool, queues, blocks and deployments; safe to repeat",
        description=(
            "Create what is missing and update what differs, in the Prefect server that "
            "PREFECT_API_URL names. What people edited in the UI is kept."
        ),
    )
    command.add_argument("--pool", default="gpu", help="the work pool's name (default: gpu)")
    command.add_argument(
        "--policy", type=Path, default=Path("deployments/policy.yaml"), help="the policy file"
    )
    command.add_argument(
        "--prefect-file",
        type=Path,
        default=Path("prefect.yaml"),
        help="the deployments; skipped where there is no such file",
    )
    command.add_argument("--ledger-url", help="the usage ledger's database, as SQLAlchemy URL")
    command.add_argument("--mlflow-uri", help="MLflow's tracking URI")
    command.add_argument("--checkpoint-uri", help="where runs save: a folder or s3://bucket/prefix")
    command.set_defaults(run=_setup)


def _quickstart(options: argparse.Namespace) -> int:
    from gpu_core.cli.quickstart import quickstart

    exit_code: int = quickstart(options.folder, keep=options.keep)
    return exit_code


def _setup(options: argparse.Namespace) -> int:
    from gpu_core.cli.setup import SetupOptions, setup

    return setup(
        SetupOptions(
            pool=options.pool,
            policy_path=options.policy,
            prefect_file=options.prefect_file,
            ledger_url=options.ledger_url,
            mlflow_uri=options.mlflow_uri,
            checkpoint_uri=options.checkpoint_uri,
        )
    )
