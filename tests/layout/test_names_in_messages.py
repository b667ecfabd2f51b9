"""What a message names must exist: commands that can be copied, options, pages."""

import ast
import re
import shlex
from pathlib import Path

import pytest
from prefect.cli._app import _app as prefect_commands

from gpu_core.cli.main import app
from gpu_core.cli.shared.exit_codes import MEANING_OF_1
from tests.layout.texts import texts

_SOURCES = sorted(path for path in Path("gpu_core").rglob("*.py"))
# In back-quotes, or at the place where a remedy names a command without them.
_COMMAND = re.compile(
    r"`((?:prefect|prefect-gpu) [^`\n]+)`|((?:prefect|prefect-gpu)(?: [a-z-]+){2,4})"
)
_PAGE = re.compile(r"docs/[a-z-]+\.md|[A-Z]{4,}\.md")
# Without back-quotes only these are commands: `prefect-gpu knows up to` is a sentence.
_FIRST_WORDS = ("work-pool", "work-queue", "worker", "server", "config", "flow-run",
                *(name.split()[1] for name in MEANING_OF_1))  # fmt: skip


TEXTS = {
    path: [text for _, text in texts(ast.parse(path.read_text(encoding="utf-8")))]
    for path in _SOURCES
}
COMMANDS = sorted({
    quoted or bare
    for found in TEXTS.values()
    for text in found
    for quoted, bare in _COMMAND.findall(text)
    if quoted or bare.split()[1] in _FIRST_WORDS
})  # fmt: skip
PAGES = sorted({page for found in TEXTS.values() for text in found for page in _PAGE.findall(text)})


def _options_of(words: list[str]) -> set[str]:
    """The options of the `prefect-gpu` command that these words begin with."""
    _, found, _ = app.parse_commands(words)
    assert found[-1].default_command is not None, "it is a group of commands, or none"
    arguments = found[-1].assemble_argument_collection()
    return {name for argument in arguments for name in argument.names}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_a_message_names(command: str) -> None:
    program, *words = shlex.split(command)
    if program == "prefect":
        _, found, _ = prefect_commands.parse_commands(words)
        assert found[-1].default_command is not None, "it is a group of commands, or none"
        return
    known = _options_of(words)
    for option in (word for word in words if word.startswith("--")):
        assert option.partition("=")[0] in known


def test_messages_name_commands_and_pages() -> None:
    assert len(COMMANDS) > 15
    assert PAGES


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_a_message_names(page: str) -> None:
    assert Path(page).is_file()
