"""`prefect-gpu`: the commands and their options. A command's module is loaded when it is used."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path

from gpu_core.cli.catalog.arguments import add_catalog
from gpu_core.cli.plan.arguments import add_plan
from gpu_core.cli.shared.parser import (
    DONE,
    INTERRUPTED,
    NO,
    WRONG_INPUT,
    CommandParser,
    parse_options,
)
from gpu_core.cli.shared.prefect_settings import load_prefect
from gpu_core.cli.shared.secret_options import add_secret_file, add_secret_option, secret_option
from gpu_core.decisions.model.errors import GpuSchedulingError, InvalidInput


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code; wrong input is one clear line on stderr."""
    options = parse_options(_parser(), arguments)
    if isinstance(sys.stdout, TextIOWrapper):
        # A terminal that has no `×` gets a `?` instead of nothing at all.
        sys.stdout.reconfigure(errors="replace")
    try:
        code = int(options.run(options))
        sys.stdout.flush()
    except GpuSchedulingError as error:
        return _refused(options, str(error), WRONG_INPUT if isinstance(error, InvalidInput) else NO)
    except BrokenPipeError:
        # Whoever reads, such as `head`, has what it wants. Python would complain when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except OSError as error:
        return _refused(options, f"the system refused: {error}", NO)
    except KeyboardInterrupt:
        return _refused(options, "interrupted", INTERRUPTED)
    return code


def _refused(options: argparse.Namespace, why: str, code: int) -> int:
    print(f"{options.parser.prog}: {why}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = CommandParser(
        prog="prefect-gpu", description="GPU scheduling for Prefect."
    )
    parser.add_argument(
        "--version", action="version", version=f"prefect-gpu {version('prefect-gpu')}"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_quickstart(commands)
    _add_setup(commands)
    _add_check(commands)
    _add_doctor(commands)
    _add_queue(commands)
    _add_tags(commands)
    _add_simulate(commands)
    add_plan(commands)
    add_catalog(commands)
    _add_spot_replay(commands)
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
            "PREFECT_API_URL names. What people edited in the UI is kept. "
            "+ is new, ~ changed, = as it was, ! needs a person."
        ),
    )
    command.add_argument("--pool", default="gpu", help="the work pool's name (default: gpu)")
    command.add_argument(
        "--type",
        choices=("gpu-process", "gpu-kubernetes"),
        help="where its runs run: on this machine or in a cluster (default: as the pool is, "
        "gpu-process for a new one)",
    )
    command.add_argument(
        "--policy",
        type=Path,
        help="the policy file (default: deployments/policy.yaml; without one, the default policy)",
    )
    command.add_argument(
        "--prefect-file",
        type=Path,
        help="the deployments (default: prefect.yaml; without one, none)",
    )
    command.add_argument("--namespace", help="gpu-kubernetes: where runs run that say nothing else")
    command.add_argument("--image", help="gpu-kubernetes: what runs run in that say nothing else")
    command.add_argument(
        "--service-account-name",
        help="gpu-kubernetes: the ServiceAccount of runs that say nothing else",
    )
    add_secret_option(command, "ledger-url", "the usage ledger's database, as SQLAlchemy URL")
    add_secret_option(command, "mlflow-uri", "MLflow's tracking URI, with user and password if any")
    add_secret_file(command, "mlflow-token", "MLflow's bearer token")
    command.add_argument("--checkpoint-uri", help="where runs save: a folder or s3://bucket/prefix")
    command.add_argument(
        "--dry-run", action="store_true", help="print what would change, and change nothing"
    )
    command.set_defaults(run=_setup)


def _add_check(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = commands.add_parser(
        "check",
        help="what is wrong with a policy, prefect.yaml, base job template or manifests",
        description=(
            "Say what is wrong with files before a server or a cluster reads them: a policy, a "
            "prefect.yaml, a base job template or Kubernetes manifests, recognized by what they "
            "hold. Neither server nor cluster is needed: helm template CHART | prefect-gpu check -"
        ),
    )
    command.add_argument(
        "files", nargs="+", metavar="FILE", help="a file, a folder of them, or - for standard input"
    )
    command.add_argument(
        "--policy",
        type=Path,
        help="the policy that manifests and deployments are for (default: the first one among the "
        "files; without one, the default policy)",
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_check)


def _add_doctor(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = commands.add_parser(
        "doctor",
        help="is everything there that a pool's worker needs, and what helps where it is not",
        description=(
            "Look at all that a pool's worker needs: versions, Prefect's API and the pool, its "
            "template, the cluster's rights, lease, nodes and NodePools or this machine's GPUs, "
            "clocks, checkpoint store, ledger and MLflow. One line for each, with what helps. "
            "Nothing is changed but one object in the checkpoint store, which is removed again."
        ),
    )
    command.add_argument(
        "--pool", help="the work pool's name (default: gpu, or the only GPU pool that there is)"
    )
    command.add_argument(
        "--type",
        choices=("gpu-process", "gpu-kubernetes"),
        help="the type that the pool should have (default: as it is)",
    )
    command.add_argument(
        "--policy",
        type=Path,
        help="the worker's policy file (default: PREFECT_INTEGRATIONS_GPU_POLICY_PATH, "
        "deployments/policy.yaml, else the default policy)",
    )
    command.add_argument(
        "--service-account",
        metavar="NAMESPACE/NAME",
        help="gpu-kubernetes: the worker's ServiceAccount, whose rights are asked for "
        "(default: the rights of whoever asks)",
    )
    add_secret_option(command, "ledger-url", "the ledger's database instead of the pool's")
    command.add_argument(
        "--verbose", action="store_true", help="print what each check has looked at, too"
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_doctor)


def _add_queue(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = commands.add_parser(
        "queue",
        help="who waits for GPUs in a pool, why, and until when",
        description=(
            "Print the whole line of a pool as its worker published it last: position, reason, "
            "expected start and what would help."
        ),
    )
    command.add_argument("--pool", default="gpu", help="the work pool's name (default: gpu)")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_queue)


def _add_tags(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    for name, what in (
        ("hold", "keep a run from starting (sets the tag gpu:hold)"),
        ("release", "let a held run start (takes the tag gpu:hold away)"),
        ("move-up", "let a run come before all others (sets the tag gpu:first)"),
    ):
        command = commands.add_parser(name, help=what, description=what)
        command.add_argument("flow_run", metavar="RUN", help="a flow run's id or name")
        command.set_defaults(run=_tag)
    command.add_argument("--undo", action="store_true", help="take the tag away again")


def _add_simulate(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = commands.add_parser(
        "simulate",
        help="replay a history of jobs under one or more policies",
        description=(
            "Replay a history of jobs on a virtual cluster with the worker's own planner, and "
            "print waits, use of the GPUs, fairness and work lost, one column for each policy."
        ),
    )
    command.add_argument(
        "--nodes",
        required=True,
        help="80x8: 80 nodes of 8 GPUs; 16x8+64x8:spot: some of them spot; count:640: GPUs that "
        "may spread; or OpenB's node list",
    )
    command.add_argument(
        "--workload",
        required=True,
        help="the file of jobs; ledger: its file or address; kueue: a generator, baseline or large",
    )
    command.add_argument(
        "--format",
        choices=("philly", "muri", "openb", "jsonl", "kueue", "ledger"),
        required=True,
        help="its format",
    )
    command.add_argument(
        "--order",
        type=Path,
        help="openb: offer the pods in this file's order, let all stay, and print how much of the "
        "GPUs is allocated by each policy's placement strategy; --policy fragmentation-aware too",
    )
    command.add_argument(
        "--events", type=Path, help="JSON lines: failures, interruptions and recoveries of nodes"
    )
    command.add_argument(
        "--checkpoint-interval",
        help="work between two checkpoints of jobs that state none; default: all work is safe",
    )
    command.add_argument(
        "--checkpoint-cost", default="0s", help="what each of these takes (default: 0s)"
    )
    command.add_argument(
        "--policy",
        action="append",
        required=True,
        help="a policy file, or fifo, greedy, easy, conservative, sjf, sjf-easy, fair, priority, "
        "srtf, srsf, las, mlfq; may be repeated",
    )
    command.add_argument(
        "--run-times",
        choices=("none", "true", "noisy", "stated", "learned"),
        default="none",
        help="what the scheduler is told of run times (default: none)",
    )
    command.add_argument("--seed", type=int, default=1, help="of noisy run times (default: 1)")
    command.add_argument(
        "--restart-cost", default="0s", help="lost by each attempt after the first (default: 0s)"
    )
    command.add_argument("--tick", help="plan at least this often while jobs wait")
    command.add_argument("--horizon", help="utilisation is over this time; default: to the end")
    command.add_argument(
        "--entitlements", type=Path, help="CSV with vc,node num: the weights for the share error"
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_simulate)


def _add_spot_replay(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = commands.add_parser(
        "spot-replay",
        help="replay a job with a deadline on recorded spot availability",
        description=(
            "Replay a job with a deadline on recorded spot availability, from random moments on, "
            "and print what each strategy for spot and on-demand costs beside the best possible. "
            "The worker's own rules decide, every minute, with its back-offs and limits. "
            "Or, with a ledger and no task, what the best possible would have cost its finished "
            "spot runs."
        ),
    )
    command.add_argument(
        "files", type=Path, nargs="*", metavar="FILE", help="JSON with metadata.gap_seconds, data"
    )
    add_secret_option(
        command,
        "ledger",
        "instead of files, spot as one's own attempts found it: the ledger's file or address",
    )
    command.add_argument("--task-hours", type=float, help="the job's work")
    command.add_argument("--deadline-hours", type=float, help="from its start on")
    command.add_argument(
        "--changeover-hours",
        type=float,
        default=0.2,
        help="what each start on other capacity loses; as the worker does, it is taken from the "
        "policy until three starts are measured (default: 0.2)",
    )
    command.add_argument(
        "--price-ratio",
        type=float,
        help="on-demand price by spot price; for a ledger's runs only where it has none",
    )
    command.add_argument(
        "--starts", type=int, default=100, help="replays of each file (default: 100)"
    )
    command.add_argument("--seed", type=int, default=1, help="of their starts (default: 1)")
    command.add_argument("--ticks", type=int, help="use only so many ticks of each file")
    command.add_argument(
        "--nodes", type=int, default=1, help="spot is up where so many nodes are (default: 1)"
    )
    command.add_argument(
        "--policy",
        action="append",
        default=[],
        help="patience, uniform-progress, plain-uniform-progress, greedy; may be repeated (all)",
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_spot_replay)


def _quickstart(options: argparse.Namespace) -> int:
    from gpu_core.cli.quickstart.command import quickstart

    exit_code: int = quickstart(options.folder, keep=options.keep)
    return exit_code


def _setup(options: argparse.Namespace) -> int:
    load_prefect()
    from gpu_core.cli.setup import SetupOptions, setup

    return setup(
        SetupOptions(
            pool=options.pool,
            worker_type=options.type,
            policy_path=options.policy,
            prefect_file=options.prefect_file,
            namespace=options.namespace,
            image=options.image,
            service_account_name=options.service_account_name,
            ledger_url=secret_option(options, "ledger-url"),
            mlflow_uri=secret_option(options, "mlflow-uri"),
            mlflow_token=secret_option(options, "mlflow-token"),
            checkpoint_uri=options.checkpoint_uri,
            dry_run=options.dry_run,
        )
    )


def _check(options: argparse.Namespace) -> int:
    from gpu_core.cli.check import check

    return check(options.files, options.policy, as_document=options.json)


def _doctor(options: argparse.Namespace) -> int:
    load_prefect()
    from gpu_core.cli.doctor import DoctorOptions, doctor

    return doctor(
        DoctorOptions(
            pool=options.pool,
            worker_type=options.type,
            policy_path=options.policy,
            service_account=options.service_account,
            ledger_url=secret_option(options, "ledger-url"),
            as_document=options.json,
            with_details=options.verbose,
        )
    )


def _queue(options: argparse.Namespace) -> int:
    load_prefect()
    from gpu_core.cli.queue.command import queue

    return queue(options.pool, as_json=options.json)


def _tag(options: argparse.Namespace) -> int:
    load_prefect()
    from gpu_core.cli.queue.run_tags import set_tag
    from gpu_core.decisions.requests.run_tags import FIRST_TAG, HOLD_TAG

    match options.command:
        case "hold":
            return set_tag(options.flow_run, HOLD_TAG, is_set=True)
        case "release":
            return set_tag(options.flow_run, HOLD_TAG, is_set=False)
        case _:
            return set_tag(options.flow_run, FIRST_TAG, is_set=not options.undo)


def _simulate(options: argparse.Namespace) -> int:
    from gpu_core.cli.simulate.command import SimulateOptions, run_simulate
    from gpu_core.decisions.model.units import parse_duration_s

    def duration_s(text: str | None, field: str) -> int | None:
        return None if text is None else parse_duration_s(text, field)

    return run_simulate(
        SimulateOptions(
            nodes=options.nodes,
            workload=options.workload,
            format=options.format,
            order=options.order,
            events=options.events,
            checkpoint_interval_s=duration_s(options.checkpoint_interval, "checkpoint-interval"),
            checkpoint_stall_s=parse_duration_s(options.checkpoint_cost, "checkpoint-cost"),
            policies=tuple(options.policy),
            run_times=options.run_times,
            seed=options.seed,
            restart_s=parse_duration_s(options.restart_cost, "restart-cost"),
            tick_s=duration_s(options.tick, "tick"),
            horizon_s=duration_s(options.horizon, "horizon"),
            entitlements=options.entitlements,
            as_json=options.json,
        )
    )


def _spot_replay(options: argparse.Namespace) -> int:
    from gpu_core.cli.spot.replay import SpotReplayOptions, run_spot_replay

    return run_spot_replay(
        SpotReplayOptions(
            files=tuple(options.files),
            ledger=secret_option(options, "ledger"),
            task_hours=options.task_hours,
            deadline_hours=options.deadline_hours,
            changeover_hours=options.changeover_hours,
            price_ratio=options.price_ratio,
            starts=options.starts,
            seed=options.seed,
            ticks=options.ticks,
            nodes=options.nodes,
            policies=tuple(options.policy),
            as_json=options.json,
        )
    )
