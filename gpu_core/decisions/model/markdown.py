"""Markdown with texts of users in it: no character of a name is read as markup."""

import re
from collections.abc import Iterable, Sequence

# What CommonMark and its tables give a meaning to, in the middle of a line.
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&])")

# A command or a setting in a sentence of the product.
_CODE_OR_SPECIAL = re.compile(rf"(?P<code>`[\w.:()=/ -]{{1,60}}`)|{_SPECIAL.pattern}")

# Prefect's UI shows the text of a link as it is written, with only `|` unescaped. A name with one
# of these is not the text of a link. An underscore within a word has no meaning in Markdown.
_NOT_IN_LINKS = re.compile(r"[\\`*\[\]<>~]|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])|https?:|www\.")

# Wider cells push what a table is read for out of a window of 400 px.
_LONGEST_CELL = 22
# Of these the end: names such as `flow/deployment` and those of a sweep's runs differ there.
_END_OF_CELL = 12


def escaped(text: str) -> str:
    """The text as one line that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def sentence(text: str) -> str:
    """A sentence of the product: what it has in backquotes is shown as code, all else as it is."""
    line = " ".join(text.split())
    return _CODE_OR_SPECIAL.sub(lambda found: found["code"] or f"\\{found.group()}", line)


def cell(text: str) -> str:
    """The text in a cell of a table, as it is but for the middle of a long one."""
    return escaped(_shortened(text))


def flow_run_link(name: str, flow_run_id: str) -> str:
    """A link to the page of a flow run, from any artifact's page of Prefect's UI."""
    page = f"/runs/flow-run/{flow_run_id}"
    label = " ".join(name.split()) or flow_run_id
    if _NOT_IN_LINKS.search(label):
        return f"{escaped(label)} [open]({page})"
    bars_escaped = label.replace("|", r"\|")
    return f"[{bars_escaped}]({page})"


def flow_run_cell(name: str, flow_run_id: str) -> str:
    """The same link in a cell of a table, where a long name has no middle."""
    return flow_run_link(_shortened(name), flow_run_id)


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    if len(line) <= _LONGEST_CELL:
        return line
    return f"{line[: _LONGEST_CELL - _END_OF_CELL - 1]}…{line[-_END_OF_CELL:]}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the cells are Markdown."""
    lines = [_line(head), _line(["---"] * len(head)), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
