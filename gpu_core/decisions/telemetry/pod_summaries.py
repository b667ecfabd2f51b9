"""The activity of the GPUs of an attempt's pods, as a Prometheus knows it."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from math import ceil
from typing import NamedTuple

from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.telemetry.metric_names import READINGS
from gpu_core.decisions.telemetry.series import Series, readings_of
from gpu_core.decisions.telemetry.summary import GpuTotals

# What a summary is made of.
_FIELDS = frozenset(
    {
        *("utilization_ratio", "sm_active_ratio", "memory_used_bytes"),
        *("temperature_c", "power_w", "energy_j"),
    }
)

# A scrape is every 15 to 60 seconds, as a rule; a point more often says nothing more.
_SHORTEST_STEP_S = 15
# Of one series: a long attempt has a longer step. Prometheus refuses over 11,000.
_MOST_POINTS = 1000

_PODS_OF_A_QUERY = 8


class RangeQuery(NamedTuple):
    """A query over a span of time."""

    query: str
    start: datetime
    end: datetime
    step_s: int


def queries_for(
    namespace: str, pods: Sequence[str], start: datetime, end: datetime
) -> tuple[RangeQuery, ...]:
    """Queries to a Prometheus about the GPUs of these pods, a few pods at a time.

    Args:
        namespace: Of all of them.
        pods: Their names.
        start: When the attempt started.
        end: When it ended.
    """
    step_s = max(_SHORTEST_STEP_S, ceil((end - start).total_seconds() / _MOST_POINTS))
    names = "|".join(
        name
        for name, reading in READINGS.items()
        if reading.quantity is not None and reading.quantity.field in _FIELDS
    )
    found = []
    for first in range(0, len(pods), _PODS_OF_A_QUERY):
        few = "|".join(pods[first : first + _PODS_OF_A_QUERY])
        # Where Prometheus sets these labels itself, those of the exporter have another name.
        either = (
            f'{{__name__=~"{names}", {prefix}namespace={json.dumps(namespace)}, '
            f"{prefix}pod=~{json.dumps(few)}}}"
            for prefix in ("", "exported_")
        )
        found.append(RangeQuery(" or ".join(either), start, end, step_s))
    return tuple(found)


def summaries_from(series: Iterable[Series], step_s: int) -> tuple[GpuSummary, ...]:
    """The summary of each GPU over these points of time. Empty: there is no point.

    A point stands for all seconds of a step, so that attempts with other steps, and those that are
    sampled each second, weigh as much as they lasted.

    Args:
        series: Of GPUs, at every step.
        step_s: Seconds from point to point.
    """
    totals: dict[str, GpuTotals] = {}
    for reading in readings_of(series):
        sample = reading.sample
        before = totals.get(sample.gpu_id, GpuTotals(gpu_id=sample.gpu_id))
        totals[sample.gpu_id] = before.with_sample(sample)
    found = (each.summary() for _, each in sorted(totals.items()))
    return tuple(replace(each, samples=each.samples * step_s) for each in found if each)
