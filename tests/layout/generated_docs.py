"""The parts of docs/ that are made of the code: `make docs` writes them, a test compares them."""

from pathlib import Path

from gpu_core.decisions.kubernetes.prefect_fields import PREFECT_FIELDS

KUBERNETES = Path(__file__).parents[2] / "docs" / "kubernetes.md"
_BEGIN = "<!-- prefect-fields: `make docs` writes this table -->\n"
_END = "<!-- prefect-fields: end -->\n"


def fields_table() -> str:
    """What becomes of each job variable of prefect-kubernetes, as a table in Markdown."""
    rows = [f"| `{field.name}` | {field.treatment} | {field.effect} |" for field in PREFECT_FIELDS]
    head = ["| Job variable | Here | What happens |", "|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def with_tables(text: str) -> str:
    """The document with the table as the code has it."""
    before, _, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not end:
        raise ValueError(f"{KUBERNETES.name} lacks the marks of its table")
    return f"{before}{_BEGIN}{fields_table()}{_END}{after}"


if __name__ == "__main__":
    KUBERNETES.write_text(with_tables(KUBERNETES.read_text("utf-8")), "utf-8")
