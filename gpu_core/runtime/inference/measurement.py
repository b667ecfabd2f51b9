"""Measure a workload on the device of this run, at the price of that device."""

from collections.abc import Callable, Sequence

from gpu_core.decisions.catalog.offerings import Catalog
from gpu_core.decisions.optimization.experiments.price import device_price
from gpu_core.decisions.optimization.experiments.trial import Measured, Setting
from gpu_core.runtime.inference.bench import bench, measured
from gpu_core.runtime.inference.workload import usual_workload


def measure_workload(
    workload: str | None,
    settings_of: Callable[[str], Sequence[Setting]],
    offers: Catalog,
    *,
    usd_per_hour: float | None,
    repeats: int,
    seconds: float,
    processes: int = 1,
) -> Measured:
    """The cost and speed of these configurations of a workload on this machine.

    Args:
        workload: `module:function` of the function that makes it; None: the usual one.
        settings_of: The configurations for a device: a GPU type, or `cpu`.
        offers: Prices of devices.
        usd_per_hour: What the device costs; None: its on-demand price in `offers`.
        repeats: Of each configuration, 1 or more.
        seconds: How long each repeat takes, over 0.
        processes: How many use the device at the same time, at most.

    Raises:
        InvalidInput: A number is out of range, or the device has no price.
        MeasurementFailed: A process could not start, or has ended.
    """
    with bench(workload or usual_workload(), processes) as on:
        price = device_price(on.device, usd_per_hour, offers)
        return measured(on, settings_of(on.device), price, repeats=repeats, seconds=seconds)
