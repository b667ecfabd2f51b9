"""The report of a run in a pod on its checkpoints: labels of its flow run in Prefect.

A pod shares no folder with the worker. The labels of a flow run can be written from inside the run,
come with every look at the run, outlive both sides, and cost one request for each checkpoint.
"""

from collections.abc import Mapping

PREFIX = "prefect-gpu.checkpoint."

Label = str | int | float | bool


def to_labels(report: Mapping[str, Label | None]) -> dict[str, Label]:
    """The labels that carry this report; what is unknown is an empty text, or it would stay."""
    return {f"{PREFIX}{name}": "" if value is None else value for name, value in report.items()}


def from_labels(labels: Mapping[str, object], attempt_id: str) -> dict[str, object] | None:
    """The report that this attempt has made; None: none, or it is another attempt's.

    >>> from_labels({"prefect-gpu.checkpoint.attempt_id": "a", "team": "vision"}, "a")
    {'attempt_id': 'a'}
    """
    report = {
        name.removeprefix(PREFIX): value
        for name, value in labels.items()
        if name.startswith(PREFIX) and value != ""
    }
    return report if report.get("attempt_id") == attempt_id else None
