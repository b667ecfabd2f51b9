"""The questions of `prefect-gpu optimize ask`, from the table that answers them."""

from gpu_core.decisions.optimization.questions.questions import QUESTIONS, Question

_BY = {None: "all runs", "gpu_type": "GPU type", "end_reason": "end reason"}


def question_table() -> str:
    """Every question, how else it may be asked, and what its numbers are, in Markdown."""
    head = ["| Question | Also | By | Unit | Numbers |", "|---|---|---|---|---|"]
    return "\n".join([*head, *map(_row, QUESTIONS)]) + "\n"


def _row(question: Question) -> str:
    by = _BY.get(question.by, str(question.by).replace("_", " "))
    also = "; ".join(question.also)
    kind = question.kind
    return f"| {question.text} | {also} | {by} | {kind.unit} | {kind.origin}{_which(question)} |"


def _which(question: Question) -> str:
    names = sorted(question.purposes or question.reasons)
    if not names or len(names) > 3:
        return ""
    return f" ({', '.join(f'`{name}`' for name in names)})"
