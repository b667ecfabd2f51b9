"""Tables fit their terminal with whole words and numbers; a pipe has all of them."""

import pytest
from rich.cells import cell_len
from rich.table import Table

from gpu_core.cli.shared.tables import print_table, simple_table

NAMES = [
    pytest.param("[red]train[/red]", id="markup"),
    pytest.param("🚀 train 🚀 :rocket:", id="emoji"),
    pytest.param("אימון לילה", id="right to left"),
    pytest.param("train-a-large-language-model/" + "nightly-" * 8, id="long"),
]


def table_of(name: str) -> Table:
    table = simple_table("Runs that held GPUs in the night", "Up to 12:00:00 UTC")
    for heading in ("Run", "Why"):
        table.add_column(heading)
    table.add_column("80% interval", justify="right")
    table.add_row(name, "waits for 12 GPUs", "38% to 61%")
    table.add_row("b", "waits", "5%")
    return table


@pytest.fixture
def printed(monkeypatch, capsys):
    """The lines of a table on a terminal of this width; None: in a pipe."""

    def lines(table, columns):
        monkeypatch.setenv("COLUMNS", str(columns or 40))
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("TERM", "dumb")
        monkeypatch.setattr("sys.stdout.isatty", lambda: columns is not None)
        print_table(table)
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return lines


@pytest.mark.parametrize("name", NAMES)
def test_a_pipe_has_whole_rows_however_narrow_the_terminal_is(printed, name):
    lines = printed(table_of(name), None)
    (row,) = (line for line in lines if "38%" in line)
    assert row.split("waits")[0].strip(" \u2068\u2069") == name
    assert row.endswith("waits for 12 GPUs    38% to 61%")


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 120])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_cut_and_no_word_or_number_is_broken(printed, name, columns):
    lines = printed(table_of(name), columns)
    assert max(map(cell_len, lines)) <= columns
    text = "\n".join(lines)
    assert "…" not in text
    for whole in ("38%", "61%", "80%", "12 GPUs", "interval"):
        assert whole in text
    isolates = dict.fromkeys(map(ord, "\u2068\u2069"))
    letters = sorted("".join(text.translate(isolates).split()))
    for letter in set("".join(name.split())):
        assert letters.count(letter) >= name.count(letter)


def test_names_break_at_their_joints_before_columns_are_given_up(printed):
    lines = printed(table_of("train-a-large-language-model/nightly"), 56)
    firsts = [line.split()[0] for line in lines if line.startswith(" ") and line[1].isalpha()]
    assert firsts == ["Run", "train-a-large-language-", "model/nightly", "b"]


def test_a_row_without_room_for_columns_is_a_paragraph(printed):
    lines = printed(table_of("train-" + "x" * 40), 40)
    assert lines[0] == "Runs that held GPUs in the night"
    assert lines[1:] == [
        "train-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "  xxxxxx",
        "    Why waits for 12 GPUs,",
        "    80% interval 38% to 61%",
        "b",
        "    Why waits, 80% interval 5%",
        "Up to 12:00:00 UTC",
    ]


def test_a_row_that_goes_on_with_the_one_above_has_no_empty_line(printed):
    table = simple_table("Machines")
    for heading in ("Machine of this type", "Number of them", "Where they are"):
        table.add_column(heading, no_wrap=True)
    table.add_row("8 × a100-80gb", "1", "us-east-1")
    table.add_row("", "2", "us-west-2")
    assert printed(table, 30) == [
        "Machines",
        "8 × a100-80gb",
        "    Number of them 1,",
        "    Where they are us-east-1",
        "    Number of them 2,",
        "    Where they are us-west-2",
    ]


def test_a_dumb_terminal_may_be_narrow_or_wide(printed):
    """Rich alone takes each for 80 columns; these tests set TERM=dumb."""
    assert "…" not in "".join(printed(table_of("x" * 100), None))
