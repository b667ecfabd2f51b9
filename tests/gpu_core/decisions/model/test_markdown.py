"""Names in Markdown: what people read is the name, whatever characters it has."""

import re
from itertools import groupby
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from gpu_core.decisions.model.markdown import cell, flow_run_cell, flow_run_link, sentence, table

RUN = "d5f5dbc9-f2f5-4bce-bed8-db294f41e7a5"
PAGE = f"/runs/flow-run/{RUN}"
NAMES = st.text(
    st.sampled_from(r"ab_-|*`<>[]()\~!&;#:/ ._$%1😀ש")
    | st.characters(exclude_categories=["C", "Z"]),
    max_size=40,
)


def tokens(markdown: str) -> list[Token]:
    """What CommonMark with tables makes of a cell next to another."""
    page = table(("Run", "Cost"), [(markdown, "$1.00")])
    parsed = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(page)
    cells = [token for token in parsed if token.type == "inline"]
    assert [token.content for token in cells if token is not cells[2]] == ["Run", "Cost", "$1.00"]
    return cells[2].children or []


def shown(parts: list[Token]) -> str:
    """The text without its formatting, of which there may be none."""
    assert {part.type for part in parts} <= {"text", "text_special", "link_open", "link_close"}
    return "".join(part.content for part in parts)


def as_in_prefect(markdown: str) -> str:
    """The same in Prefect 3's UI: the text of a link is shown as it is written, but for `|`."""
    return re.sub(r"\\(.)|\[(.*?)\]\(.*?\)", lambda m: m[1] or m[2].replace(r"\|", "|"), markdown)


def wanted(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= 22 else f"{line[:9]}…{line[-12:]}"


@given(name=NAMES)
def test_a_cell_is_the_text(name: str) -> None:
    assert shown(tokens(cell(name))).strip() == wanted(name)


@given(name=NAMES.filter(lambda name: "`" not in name))
def test_a_sentence_without_code_is_the_text(name: str) -> None:
    assert shown(tokens(sentence(name))).strip() == " ".join(name.split())


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            "set `scale.max_gpus` in <policy>",
            [("text", "set "), ("code_inline", "scale.max_gpus"), ("text", " in <policy>")],
            id="a setting",
        ),
        pytest.param("one ` is no code", [("text", "one ` is no code")], id="one backquote"),
        pytest.param("`<b>`", [("text", "`<b>`")], id="markup in backquotes is no setting"),
    ],
)
def test_backquotes_in_a_sentence_are_code(text: str, want: list[tuple[str, str]]) -> None:
    parts = [(part.type.replace("_special", ""), part.content) for part in tokens(sentence(text))]
    joined = [(kind, "".join(c for _, c in group)) for kind, group in groupby(parts, itemgetter(0))]
    assert joined == want


@given(name=NAMES)
def test_a_link_is_the_name_and_leads_to_the_page_of_the_run(name: str) -> None:
    """In any renderer of CommonMark, and in Prefect's, which shows a link's text as written."""
    link = flow_run_cell(name, RUN)
    parts = tokens(link)
    assert [part.attrs["href"] for part in parts if part.type == "link_open"] == [PAGE]
    for text in (shown(parts), as_in_prefect(link)):
        assert text.removesuffix(" open") == (wanted(name) or RUN)


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("train_resnet_50", f"[train_resnet_50]({PAGE})", id="underscores in a word"),
        pytest.param("a | b", rf"[a \| b]({PAGE})", id="a bar"),
        pytest.param("lr=1e-3 (2)", f"[lr=1e-3 (2)]({PAGE})", id="parentheses"),
        pytest.param("تدريب", f"[تدريب]({PAGE})", id="right to left"),
        pytest.param("__init__", rf"\_\_init\_\_ [open]({PAGE})", id="would be bold"),
        pytest.param("<b>x</b>", rf"\<b\>x\</b\> [open]({PAGE})", id="markup"),
        pytest.param("[x](http://y)", rf"\[x\](http://y) [open]({PAGE})", id="a link of its own"),
        pytest.param("n" * 120, f"[{'n' * 120}]({PAGE})", id="long"),
        pytest.param(" ", f"[{RUN}]({PAGE})", id="no name"),
    ],
)
def test_links(name: str, want: str) -> None:
    assert flow_run_link(name, RUN) == want


def test_a_long_name_has_no_middle_in_a_cell() -> None:
    assert flow_run_cell("n" * 120, RUN) == f"[{'n' * 9}…{'n' * 12}]({PAGE})"


def test_long_names_that_differ_at_their_end_differ_in_cells() -> None:
    names = [f"finetune-language-model/{name}" for name in ("research", "production", "research-2")]
    assert [cell(name) for name in names] == [
        "finetune-…del/research",
        "finetune-…l/production",
        "finetune-…l/research-2",
    ]
