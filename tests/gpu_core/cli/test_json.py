"""Each command that reads has `--json`; those that have none change something or run on."""

from gpu_core.cli.main import app

CHANGE_OR_RUN_ON = {
    "quickstart",
    "setup",
    "hold",
    "release",
    "move-up",
    "gpus free",
    "gpus export",
    "cost export",
    "ledger purge",
    "optimize undo",
}


def commands():
    for name in (each for each in app if not each.startswith("-")):
        parts = [each for each in app[name] if not each.startswith("-")]
        if not parts or app[name].default_command is not None:
            yield name, app[name]
        yield from ((f"{name} {part}", app[name][part]) for part in parts)


def test_each_command_that_reads_has_json():
    without = {
        name
        for name, command in commands()
        if not any(
            "--json" in argument.names for argument in command.assemble_argument_collection()
        )
    }
    assert without == CHANGE_OR_RUN_ON
