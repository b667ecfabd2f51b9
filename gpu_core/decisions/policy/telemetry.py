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
    """The source of measurements of GPUs."""

    prometheus_url: Annotated[str, parsed_by(_prometheus_url)] | None = None
    """The Prometheus that scrapes the GPUs of pods from our node exporter or from dcgm-exporter,
    such as `http://prometheus.monitoring:9090`. None: pods are not sampled."""
    planning_window_s: Annotated[Duration, Field(ge=60, le=3600)] | None = Field(
        default=None, alias="planning_window"
    )
    """The last minutes over which plans average measurements, 1 minute to 1 hour. `least-loaded`
    uses the utilisation and memory of shared GPUs. The choice of a victim uses the utilisation of
    its GPUs, by which its lost work counts. None: plans read no measurement."""
    history_days: Annotated[int, Field(ge=0, le=366)] = 30
    """The number of days for which the ledger keeps the activity of each GPU of a process pool by
    minute. 0: it keeps none. The activity of attempts is kept for good."""
