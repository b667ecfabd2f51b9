"""Policy section `telemetry`: where measurements of GPUs come from."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import parsed_by
from gpu_core.decisions.model.section import Duration, Section


def _prometheus_url(value: object, field: str) -> str:
    try:
        address = urlsplit(value) if isinstance(value, str) else None
        is_whole = address is not None and address.scheme in ("http", "https")
        has_host = address is not None and bool(address.hostname) and address.port != 0
    except ValueError:
        address, is_whole, has_host = None, False, False
    if address is None or not is_whole or not has_host or address.query or address.fragment:
        raise InvalidInput(
            field, "is no address", got=value, allowed="http[s]://host[:port][/path]"
        )
    if address.username or address.password:
        raise InvalidInput(
            field, "holds a password", got=value, remedy="name a Prometheus without one"
        )
    return str(value).rstrip("/")


class TelemetryPolicy(Section):
    """Settings for the collection of GPU metrics."""

    prometheus_url: Annotated[str, parsed_by(_prometheus_url)] | None = None
    """The URL of the Prometheus server that collects the GPU metrics of pods from the node exporter
    or from dcgm-exporter, for example `http://prometheus.monitoring:9090`. If not set, the GPUs of
    pods are not sampled."""
    planning_window_s: Annotated[Duration, Field(ge=60, le=3600)] | None = Field(
        default=None, alias="planning_window"
    )
    """The period over which measurements are averaged for planning, from 1 minute to 1 hour. The
    strategy `least-loaded` uses the utilization and memory of shared GPUs. When a run is selected
    for preemption, the lost work is weighted by the utilization of its GPUs. If not set,
    measurements are not used for planning."""
    history_days: Annotated[int, Field(ge=0, le=366)] = 30
    """The number of days for which the activity of each GPU of a process pool is kept in the
    ledger, by minute. If set to 0, it is not kept. The activity of attempts is never deleted."""
