"""Lines break between words; numbers keep their units, names their letters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpu_core.cli.shared.folding import fold, fold_list, isolated, phrases

UNITS = [
    "95%",
    "3 GPUs",
    "10m 00s",
    "1h 05m",
    "12:00:05 UTC",
    "8 × a100-80gb",
    "2.50 GPU-hours",
    "71 °C",
    "4,096 MiB",
    "≥ 2026-01-19",
    "1 run",
    "`prefect-gpu release RUN`",
]
TEXTS = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=200)


@pytest.mark.parametrize("unit", UNITS)
def test_a_number_keeps_its_unit(unit: str) -> None:
    """At no width do they come apart, as long as one line holds both."""
    text = f"about {unit} of it"
    for columns in range(len(unit), len(text) + 1):
        assert any(unit in line for line in fold(text, columns)), columns


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("pages of S3 and EC2", ["pages", " of", " S3", " and", " EC2"], id="a name"),
        pytest.param("by $3.00 so far", ["by", " $3.00", " so", " far"], id="money has its unit"),
        pytest.param("on 2026-11-24, UTC", ["on", " 2026-11-24,", " UTC"], id="a comma"),
        pytest.param("0 of 5 starts", ["0 of", " 5 starts"], id="two numbers"),
        pytest.param("run `a b`, or c", ["run", " `a b`,", " or", " c"], id="a command"),
        pytest.param("a ` and a ` b", ["a", " `", " and", " a", " `", " b"], id="no command"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_what_stays_on_one_line(text: str, want: list[str]) -> None:
    assert phrases(text) == want


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("train-large/nightly", ["train-", "large/", "nightly"]),
        ("a100-80gb", ["a100-80gb"]),
        ("2026-11-24", ["2026-11-24"]),
        ("-$5.00", ["-$5.00"]),
        ("capacity_type", ["capacity_type"]),
    ],
)
def test_where_a_name_may_break(name: str, want: list[str]) -> None:
    assert phrases(name, splits_names=True) == want
    assert phrases(name) == [name]


def test_the_indentation_of_the_text_and_of_further_lines() -> None:
    assert list(fold("  ok    disk: has room for it", 16, "    ")) == [
        "  ok    disk:",
        "    has room for",
        "    it",
    ]


def test_a_command_that_is_wider_than_a_line_can_be_copied() -> None:
    text = f"run {'x' * 50} now"
    assert list(fold(text, 20)) == ["run", "x" * 50, "now"]
    assert list(fold(text, 20, splits_words=True)) == ["run", "x" * 20, "x" * 20, "x" * 10, "now"]


def test_a_program_gets_one_line() -> None:
    assert list(fold("word " * 100, None)) == ["word " * 100]


def test_a_name_neither_moves_the_cursor_nor_begins_a_line() -> None:
    assert list(fold("a\x1b[2Jb\nc\x07", None)) == ["a\ufffd[2Jb c\ufffd"]


@pytest.mark.parametrize("part", ["1-", "1", " ", "1d ", "10m 00s ", "× "])
def test_a_long_text_is_looked_at_once(part: str) -> None:
    """If each place looked at the rest, 200,000 blanks would take an hour."""
    assert "".join(phrases(part * 100_000)) == (part * 100_000).rstrip()


def test_an_item_of_a_list_that_fits_is_on_one_line() -> None:
    items = ["Team vision", "Held since 11:50:00", "May run until 13:00:00"]
    assert list(fold_list(items, 30, "  ")) == [
        "  Team vision,",
        "  Held since 11:50:00,",
        "  May run until 13:00:00",
    ]
    assert list(fold_list(items, None, "  ")) == [f"  {', '.join(items)}"]


@given(TEXTS, st.integers(8, 120), st.sampled_from(["", "    "]))
def test_each_line_fits_and_no_letter_is_lost(text: str, columns: int, indent: str) -> None:
    """Wide characters of emoji and Chinese count twice."""
    lines = list(fold(text, columns, indent, splits_words=True))
    assert max(map(cell_len, lines)) <= columns
    assert "".join("".join(lines).split()) == "".join(text.split())


@given(TEXTS, st.integers(8, 120))
def test_only_a_phrase_alone_may_be_wider_than_a_line(text: str, columns: int) -> None:
    wide = [line for line in fold(text, columns) if cell_len(line) > columns]
    assert {line.strip() for line in wide} <= {phrase.strip() for phrase in phrases(text)}


def test_a_name_from_right_to_left_does_not_reorder_what_is_around_it() -> None:
    assert isolated("אימון") == "\u2068אימון\u2069"
    assert isolated("train") == "train"
