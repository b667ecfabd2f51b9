"""Families of metrics as a scrape answers them."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpu_core.decisions.telemetry.metrics import MetricFamily

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""Of the answer."""


def exposition(families: Sequence[MetricFamily]) -> bytes:
    """The answer to a scrape."""
    return generate_latest(Families(lambda: families))


class Families(Collector):
    """Families as prometheus_client collects them.

    Args:
        read: The families at the moment of a scrape.
    """

    def __init__(self, read: Callable[[], Iterable[MetricFamily]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Each family, once."""
        for family in self._read():
            kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
            metric = kind(family.name, family.help, labels=family.labels)
            for values, value in family.samples.items():
                metric.add_metric(values, value)
            yield metric

    def describe(self) -> Iterator[Metric]:
        """Nothing: what is exported is known at a scrape only."""
        return iter(())
