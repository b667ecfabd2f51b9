"""What people read is in plain technical English: no word of `retired_words.RETIRED` is left."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.layout.retired_words import IN_NOTES, retired_words
from tests.layout.texts import docstrings, names, notes, texts

CODE = sorted(path for root in ("gpu_core", "flows", "blocks") for path in Path(root).rglob("*.py"))
ALL_CODE = sorted(
    [*CODE, *(p for root in ("tests", "benchmarks") for p in Path(root).rglob("*.py"))]
)
PAGES = [Path("README.md"), *sorted(Path("docs").glob("*.md"))]
DESIGNS = [
    *(Path(name) for name in ("prefect.yaml", "CONTRIBUTING.md", "AGENTS.md")),
    *sorted(Path("gpu_core").rglob("DESIGN.md")),
]


def of_code(path: Path, source: str) -> Iterator[str]:
    """The retired words in messages, log lines, descriptions, and the help of commands."""
    tree = ast.parse(source)
    found = list(texts(tree))
    if path.name == "arguments.py":
        found += docstrings(tree)
    for line, text in found:
        # A single word is a name or a value, not a sentence.
        if " " in text.strip():
            yield from (f"{path}:{line}: {word}" for word in retired_words(text))


def test_messages_have_no_retired_word() -> None:
    found = [word for path in CODE for word in of_code(path, path.read_text(encoding="utf-8"))]
    assert not found, "\n" + "\n".join(found)


def of_notes(path: Path, source: str) -> Iterator[str]:
    """The retired words in comments, docstrings, names and the ids of test cases."""
    if not any(retired_words(source.replace("_", " "), IN_NOTES)):
        return  # to take a file apart takes most of the time
    for line, text in (*notes(source), *names(source)):
        yield from (f"{path}:{line}: {word}" for word in retired_words(text, IN_NOTES))


def test_notes_and_names_have_no_retired_word() -> None:
    code = [path for path in ALL_CODE if "retired_words" not in path.name]
    found = [word for path in code for word in of_notes(path, path.read_text(encoding="utf-8"))]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("page", DESIGNS, ids=str)
def test_a_design_has_no_retired_word_of_notes(page: Path) -> None:
    found = list(retired_words(page.read_text(encoding="utf-8"), IN_NOTES))
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_page_has_no_retired_word(page: Path) -> None:
    found = list(retired_words(page.read_text(encoding="utf-8")))
    assert not found, "\n" + "\n".join(found)


def test_the_headings_of_the_changelog_have_no_retired_word() -> None:
    lines = Path("CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    headings = [line for line in lines if line.startswith("#")]
    assert headings
    assert not [word for heading in headings for word in retired_words(heading)]


@pytest.mark.parametrize(
    ("path", "source", "want"),
    [
        pytest.param(
            "gpu_core/worker/base.py",
            'log.info("The run %s goes on", name)',
            ["'goes on'"],
            id="a log line",
        ),
        pytest.param(
            "gpu_core/decisions/scheduling/plan/messages.py",
            'f"{gpus} free on nodes that failed " f"{name} lately"',
            ["'lately'"],
            id="a text with values in it",
        ),
        pytest.param(
            "gpu_core/cli/queue/arguments.py",
            'def hold():\n    """Whoever holds a run\n\n    gives\n    back its GPUs."""',
            ["'Whoever'", "'gives back'"],
            id="the help of a command, over a line break",
        ),
        pytest.param(
            "gpu_core/worker/base.py",
            'def hold():\n    """The run that goes on."""',
            [],
            id="a docstring that is no help",
        ),
        pytest.param("gpu_core/model.py", 'run_as("nobody")', [], id="a name, not a sentence"),
        pytest.param(
            "gpu_core/model.py", '"the dearth of recommended words"', [], id="parts of other words"
        ),
    ],
)
def test_a_planted_word_is_found(path: str, source: str, want: list[str]) -> None:
    found = list(of_code(Path(path), source))
    assert len(found) == len(want), found
    assert all(word in line and "; say: " in line for word, line in zip(want, found, strict=True))


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param("# Nobody waits.\n", ["'Nobody'"], id="a comment"),
        pytest.param('def f():\n    """For whoever asks."""\n', ["'whoever'"], id="a docstring"),
        pytest.param('LIMIT = 3\n"""Of everybody."""\n', ["'everybody'"], id="of a constant"),
        pytest.param('param(1, id="somebody\'s file")\n', ["'somebody'"], id="the id of a case"),
        pytest.param('team = "nobody"\n', [], id="a value"),
        pytest.param("# The run is told.\n", ["'told'"], id="another retired word"),
        pytest.param("def test_nobody_waits(): ...\n", ["'nobody'"], id="the name of a test"),
        pytest.param("class Told: ...\n", ["'Told'"], id="the name of a class"),
        pytest.param("# A wish goes on.\n", [], id="a word that notes may have"),
    ],
)
def test_a_planted_word_in_notes_and_names_is_found(source: str, want: list[str]) -> None:
    found = list(of_notes(Path("tests/test_a.py"), source))
    assert len(found) == len(want), found
    assert all(word in line for word, line in zip(want, found, strict=True))
