"""`prefect-gpu`: its commands. What a command does is loaded when it is used."""

import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from inspect import getdoc
from io import TextIOWrapper

from cyclopts import App, CycloptsError, Group, Parameter

from gpu_core.cli.anomalies.arguments import anomalies
from gpu_core.cli.catalog.arguments import refresh, show
from gpu_core.cli.check.arguments import check
from gpu_core.cli.cost.arguments import export as cost_export
from gpu_core.cli.cost.arguments import reconcile as cost_reconcile
from gpu_core.cli.cost.arguments import report as cost_report
from gpu_core.cli.cost.arguments import savings as cost_savings
from gpu_core.cli.doctor.arguments import doctor
from gpu_core.cli.gpus.arguments import export as gpus_export
from gpu_core.cli.gpus.arguments import free as gpus_free
from gpu_core.cli.gpus.arguments import held as gpus_held
from gpu_core.cli.gpus.arguments import history as gpus_history
from gpu_core.cli.gpus.arguments import preflight as gpus_preflight
from gpu_core.cli.ledger.arguments import purge, verify
from gpu_core.cli.optimize.arguments import optimize
from gpu_core.cli.optimize.arguments import show as optimize_show
from gpu_core.cli.optimize.arguments import undo as optimize_undo
from gpu_core.cli.optimize.ask import ask as optimize_ask
from gpu_core.cli.plan.arguments import plan
from gpu_core.cli.queue.arguments import hold, move_up, queue, release
from gpu_core.cli.quickstart.arguments import quickstart
from gpu_core.cli.setup.arguments import setup
from gpu_core.cli.shared.exit_codes import DONE, INTERRUPTED, NO, WRONG_INPUT, exit_codes
from gpu_core.cli.shared.help_screen import HelpScreen
from gpu_core.cli.shared.usage_errors import error_text, usage_error
from gpu_core.cli.simulate.arguments import simulate
from gpu_core.cli.spot.arguments import spot_replay
from gpu_core.decisions.model.errors import GpuSchedulingError, InvalidInput

_PROGRAM = "prefect-gpu"
_START = Group("Start", sort_key=1)
_OBSERVE = Group("Observe and check", sort_key=2)
_RUNS = Group("Change the queue", sort_key=3)
_PLAN = Group("Plan and simulate", sort_key=4)

_PARTS: tuple[tuple[str, Callable[..., int], tuple[str, ...]], ...] = (
    (
        "show",
        show,
        ("catalog show", "catalog show --all --gpu-type h100-80gb --capacity-type spot"),
    ),
    ("refresh", refresh, ("catalog refresh --region us-east-1 --region us-west-2",)),
)
_COST_PARTS: tuple[tuple[str, Callable[..., int], tuple[str, ...]], ...] = (
    (
        "report",
        cost_report,
        (
            "cost report month --by team --by gpu-type",
            "cost report day --day 2026-11-24 --by run --csv",
        ),
    ),
    (
        "export",
        cost_export,
        ("cost export month --day 2026-11-01 --output november.parquet",),
    ),
    (
        "savings",
        cost_savings,
        (
            "cost savings --month 2026-10",
            "cost savings --policy policy.yaml --committed-percent 60",
        ),
    ),
    (
        "reconcile",
        cost_reconcile,
        ("cost reconcile november.csv", "cost reconcile november.parquet --json"),
    ),
)
_GPUS_PARTS: tuple[tuple[str, Callable[..., int], tuple[str, ...]], ...] = (
    ("held", gpus_held, ("gpus held",)),
    ("free", gpus_free, ("gpus free GPU-5f2a1c3e-7d10-4b6f-9a2e-0c4d8b1e6f37",)),
    (
        *("preflight", gpus_preflight),
        ("gpus preflight GPU-5f2a1c3e-7d10-4b6f-9a2e-0c4d8b1e6f37",),
    ),
    ("history", gpus_history, ("gpus history --last 1h",)),
    ("export", gpus_export, ("gpus export --address 0.0.0.0",)),
)
_LEDGER_PARTS: tuple[tuple[str, Callable[..., int], tuple[str, ...]], ...] = (
    ("verify", verify, ("ledger verify --pool gpu",)),
    ("purge", purge, ("ledger purge --before 2026-01-01 --anchor-key-file anchor.key --dry-run",)),
)
_OPTIMIZE_PARTS: tuple[tuple[str, Callable[..., int], tuple[str, ...]], ...] = (
    ("show", optimize_show, ("optimize show spot-3f2a9c1b", "optimize show spot-3f2a9c1b --json")),
    (
        "ask",
        optimize_ask,
        ('optimize ask "most expensive workloads this week"', "optimize ask 'cost by day' --json"),
    ),
    ("undo", optimize_undo, ("optimize undo spot-3f2a9c1b",)),
)
_COMMANDS: tuple[tuple[str, Group, Callable[..., int], tuple[str, ...]], ...] = (
    ("quickstart", _START, quickstart, ("quickstart --keep",)),
    ("setup", _START, setup, ("setup --dry-run", "setup --pool gpu --type gpu-kubernetes")),
    ("check", _OBSERVE, check, ("check deployments/policy.yaml prefect.yaml", "check -")),
    ("doctor", _OBSERVE, doctor, ("doctor --pool gpu --verbose",)),
    (
        "anomalies",
        _OBSERVE,
        anomalies,
        ("anomalies", "anomalies --since 2026-11-01 --by team --policy policy.yaml --json"),
    ),
    ("queue", _OBSERVE, queue, ("queue", "queue --pool gpu --json")),
    ("hold", _RUNS, hold, ("hold wise-otter",)),
    ("release", _RUNS, release, ("release wise-otter",)),
    ("move-up", _RUNS, move_up, ("move-up wise-otter", "move-up wise-otter --undo")),
    ("plan", _PLAN, plan, ("plan 'fine-tune a 7B model with LoRA on 10M tokens' --by time",)),
    (
        "simulate",
        _PLAN,
        simulate,
        (
            "simulate --nodes 80x8 --workload jobs.jsonl --format jsonl \\\n"
            "    --policy fifo --policy easy",
        ),
    ),
    (
        "spot-replay",
        _PLAN,
        spot_replay,
        ("spot-replay trace.json --task-hours 8 --deadline-hours 12 \\\n    --price-ratio 3",),
    ),
)


def _app() -> App:
    app = App(
        name=_PROGRAM,
        help="GPU scheduling for Prefect.",
        version=f"{_PROGRAM} {version(_PROGRAM)}",
        help_format="plaintext",
        help_formatter=HelpScreen(),
        # As in other tools, the last one counts where an option is given twice.
        default_parameter=Parameter(negative=(), allow_repeating=True),
        result_action="return_value",
        print_error=False,
        exit_on_error=False,
        suppress_keyboard_interrupt=False,
    )
    for name, group, command, examples in _COMMANDS:
        app.command(
            command,
            name=name,
            group=group,
            help=_paragraphs(command),
            help_epilogue=_epilogue(name, examples),
        )
    groups = (
        ("catalog", _PLAN, "Commands for working with the GPU catalog.", _PARTS),
        (
            "gpus",
            _OBSERVE,
            "Commands for working with local GPUs and GPU metrics.",
            _GPUS_PARTS,
        ),
        ("cost", _OBSERVE, "Commands for working with GPU costs.", _COST_PARTS),
        ("ledger", _OBSERVE, "Commands for working with the decision log.", _LEDGER_PARTS),
        ("optimize", _PLAN, _paragraphs(optimize), _OPTIMIZE_PARTS),
    )
    for group_name, group, help_text, parts in groups:
        part = App(name=group_name, group=group, help=help_text)
        if group_name == "optimize":
            part.default(optimize)
            part.help_epilogue = _epilogue(group_name, ("optimize --pool gpu", "optimize --json"))
        for name, command, examples in parts:
            epilogue = _epilogue(f"{group_name} {name}", examples)
            part.command(command, name=name, help=_paragraphs(command), help_epilogue=epilogue)
        app.command(part)
    app.register_install_completion_command(help="Install shell completion for the current shell.")
    return app


def _paragraphs(command: Callable[..., int]) -> str:
    """The docstring with one line for each paragraph: the terminal decides where lines break."""
    return "\n\n".join(" ".join(part.split()) for part in (getdoc(command) or "").split("\n\n"))


def _epilogue(command: str, examples: Sequence[str]) -> str:
    lines = (f"  {_PROGRAM} {example}" for example in examples)
    return "\n".join(("Examples:", *lines, "", exit_codes(f"{_PROGRAM} {command}")))


app = _app()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code; wrong input is one clear error on stderr."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    names, apps, _ = app.parse_commands(tokens)
    program = " ".join((_PROGRAM, *names))
    if isinstance(sys.stdout, TextIOWrapper):
        # A terminal that has no `×` gets a `?` instead of nothing at all.
        sys.stdout.reconfigure(errors="replace")
    try:
        code = int(app(tokens) or DONE)
        sys.stdout.flush()
    except CycloptsError as error:
        mistake = usage_error(error, _first_example(apps[-1])).mistakes[0]
        return _refused(program, (*mistake, f"see `{program} --help`"), code=WRONG_INPUT)
    except InvalidInput as error:
        return _refused(program, *_with_options(error, apps[-1]).mistakes, code=WRONG_INPUT)
    except GpuSchedulingError as error:
        return _refused(program, (str(error),), code=NO)
    except BrokenPipeError:
        # The reader, such as `head`, has read enough. Python would complain when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except OSError as error:
        return _refused(program, (f"an I/O error occurred: {error}",), code=NO)
    except KeyboardInterrupt:
        return _refused(program, ("interrupted",), code=INTERRUPTED)
    return code


def _with_options(error: InvalidInput, command: App) -> InvalidInput:
    """The mistake with its field as an option is typed: `--day`, where it is one of the command."""
    typed = f"--{error.field.replace('_', '-')}"
    names = {name for each in command.assemble_argument_collection() for name in each.names}
    return error.at(typed) if typed in names else error


def _first_example(command: App) -> str | None:
    """The first example of this command's help, on one line. None: the help has no example."""
    lines = (command.help_epilogue or "").replace("\\\n", "").splitlines()
    return next((" ".join(line.split()) for line in lines if _PROGRAM in line), None)


def _refused(program: str, *mistakes: tuple[str, ...], code: int) -> int:
    (first, *clauses), *others = mistakes
    print(error_text([(f"{program}: {first}", *clauses), *others]), file=sys.stderr)
    return code
