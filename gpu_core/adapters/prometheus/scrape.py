"""What an exporter answers to a scrape, in the text format of Prometheus."""

from datetime import UTC, datetime

from prometheus_client.parser import text_string_to_metric_families

from gpu_core.decisions.model.errors import GpuSchedulingError
from gpu_core.decisions.telemetry.series import Series


class UnreadableScrape(GpuSchedulingError):
    """It is not in the text format of Prometheus."""


def series_of(text: str, now: datetime) -> tuple[Series, ...]:
    """The values in this answer.

    Args:
        text: The body of the answer.
        now: When it was given, for values without a time of their own.

    Raises:
        UnreadableScrape: It is cut off, or no answer of an exporter.
    """
    try:
        return tuple(
            Series(
                name=sample.name,
                labels=sample.labels,
                value=float(sample.value),
                at=_moment(sample.timestamp) or now,
            )
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        )
    except (ValueError, IndexError, KeyError, OverflowError, OSError) as error:
        raise UnreadableScrape(f"the answer is not in the text format: {error}") from error


def _moment(timestamp: object) -> datetime | None:
    """prometheus_client has seconds."""
    if timestamp is None:
        return None
    return datetime.fromtimestamp(float(str(timestamp)), UTC)
