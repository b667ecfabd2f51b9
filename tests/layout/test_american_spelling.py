"""Code, documentation and configuration have American spellings, as Prefect and Kubernetes have."""

import subprocess
from pathlib import Path

import pytest

from tests.layout.american_spelling import british_spellings

KINDS = {".py", ".md", ".yaml", ".yml", ".toml", ".sh", ".json", ".ipynb", ".tpl", ".txt", ""}
TABLES = ("tests/layout/american_spelling.py", "tests/layout/test_american_spelling.py")


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if not name.startswith("requirements/")]


def test_no_file_has_a_british_spelling() -> None:
    found = [
        f"{name}:{line}: {word}"
        for name in tracked()
        if name not in TABLES and Path(name).suffix in KINDS and Path(name).is_file()
        for line, word in british_spellings(Path(name).read_text(encoding="utf-8", errors="ignore"))
    ]
    assert not found, "\n" + "\n".join(found)


def test_no_file_has_a_british_name() -> None:
    assert not [(name, word) for name in tracked() for _, word in british_spellings(name)]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("the behaviour of neighbours", ["behaviour", "neighbours"], id="prose"),
        pytest.param("Colours\nand licences", ["Colours", "licences"], id="on several lines"),
        pytest.param("_is_initialised = True", ["initialised"], id="an identifier"),
        pytest.param("class LabelledSeries:", ["Labelled"], id="a class"),
        pytest.param("def isGrey():", ["Grey"], id="a word within a name"),
        pytest.param("Trigger.UTILISATION", ["UTILISATION"], id="a constant"),
        pytest.param("an analysed query; two analyses", ["analysed"], id="a verb, not its noun"),
        pytest.param("the run was cancelled", [], id="a state of Prefect"),
        pytest.param("`misspelt-team` is misspelt", ["misspelt"], id="next to a public name"),
        pytest.param("parameters, programmer, raise, precise, advise", [], id="American words"),
        pytest.param("greyish, disfavoured", ["greyish", "disfavoured"], id="words that begin so"),
    ],
)
def test_spellings(text: str, want: list[str]) -> None:
    got = [word.split("'")[1] for _, word in british_spellings(text)]
    assert got == want
