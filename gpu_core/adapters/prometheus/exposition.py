"""Families of metrics as a scrape answers them."""

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpu_core.decisions.telemetry.metrics import MetricFamily

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""Of the answer."""


def exposition(families: Sequence[MetricFamily]) -> bytes:
    """The answer to a scrape."""
    return generate_latest(_Families(families))


class _Families(Collector):
    def __init__(self, families: Iterable[MetricFamily]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
            metric = kind(family.name, family.help, labels=family.labels)
            for values, value in family.samples.items():
                metric.add_metric(values, value)
            yield metric
