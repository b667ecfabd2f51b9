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


@pytest.fixture(scope="module")
def messages() -> list[str]:
    """Every text of the code that may be printed."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in _SOURCES)
    return [text for tree in trees for _, text in texts(tree)]


def _options_of(words: list[str]) -> set[str] | None:
    """The options of the `prefect-gpu` command that these words begin with; None: there is none."""
    _, found, _ = app.parse_commands(words)
    if found[-1].default_command is None:
        return None
    arguments = found[-1].assemble_argument_collection()
    return {name for argument in arguments for name in argument.names}


def _what_is_wrong(command: str) -> str | None:
    """Why can this command not be copied? None: it can."""
    program, *words = shlex.split(command)
    if program == "prefect":
        _, found, _ = prefect_commands.parse_commands(words)
        return None if found[-1].default_command is not None else "a group of commands, or none"
    known = _options_of(words)
    if known is None:
        return "a group of commands, or none"
    options = (word.partition("=")[0] for word in words if word.startswith("--"))
    return ", ".join(f"{option} is no option" for option in options if option not in known) or None


def test_each_command_that_a_message_names_is_there(messages: list[str]) -> None:
    commands = {
        quoted or bare
        for text in messages
        for quoted, bare in _COMMAND.findall(text)
        if quoted or bare.split()[1] in _FIRST_WORDS
    }
    assert len(commands) > 15
    assert {c: wrong for c in sorted(commands) if (wrong := _what_is_wrong(c))} == {}


def test_each_page_that_a_message_names_is_there(messages: list[str]) -> None:
    pages = {page for text in messages for page in _PAGE.findall(text)}
    assert pages
    assert sorted(page for page in pages if not Path(page).is_file()) == []
