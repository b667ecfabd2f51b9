"""Markdown with texts of users in it: a name stays a name, whatever characters it has."""

import re
from collections.abc import Iterable, Sequence

# What CommonMark and its tables give a meaning to, in the middle of a line.
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~])")


def escaped(text: str) -> str:
    """The text as one line that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def flow_run_link(name: str, flow_run_id: str) -> str:
    """A link to the page of a flow run, from any artifact's page of Prefect's UI."""
    return f"[{escaped(name) or flow_run_id}](/runs/flow-run/{flow_run_id})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the cells are Markdown."""
    lines = [_line(head), _line(["---"] * len(head)), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
