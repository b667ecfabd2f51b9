"""The parts of docs/ that are made of the code: `make docs` writes them, a test compares them."""

from collections.abc import Callable, Mapping
from pathlib import Path

from gpu_core.decisions.kubernetes.variables.prefect_fields import PREFECT_FIELDS
from gpu_core.decisions.policy.pod_fields import TABLE

_DOCS = Path(__file__).parents[2] / "docs"


def fields_table() -> str:
    """What becomes of each job variable of prefect-kubernetes, as a table in Markdown."""
    rows = [f"| `{field.name}` | {field.treatment} | {field.effect} |" for field in PREFECT_FIELDS]
    head = ["| Job variable | Here | What happens |", "|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def pod_fields_table() -> str:
    """Who may set each field of a pod, as a table in Markdown."""
    rows = [
        f"| `{row.of}` | {', '.join(f'`{name}`' for name in row.names)} | {row.judgement} "
        f"| {row.why} |"
        for row in TABLE
    ]
    head = ["| Of | Fields | Who may set them | Why |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


TABLES: Mapping[Path, Mapping[str, Callable[[], str]]] = {
    _DOCS / "kubernetes.md": {"prefect-fields": fields_table},
    _DOCS / "security.md": {"pod-fields": pod_fields_table},
}
"""By document, what stands between the marks of each name."""


def with_tables(path: Path) -> str:
    """The document with its tables as the code has them."""
    text = path.read_text("utf-8")
    for name, table in TABLES[path].items():
        begin = f"<!-- {name}: `make docs` writes this table -->\n"
        before, _, rest = text.partition(begin)
        _, end, after = rest.partition(f"<!-- {name}: end -->\n")
        if not end:
            raise ValueError(f"{path.name} lacks the marks of the table {name}")
        text = f"{before}{begin}{table()}{end}{after}"
    return text


if __name__ == "__main__":
    for document in TABLES:
        document.write_text(with_tables(document), "utf-8")
