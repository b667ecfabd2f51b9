"""The activity of GPUs, in the cells of tables."""

from gpu_core.decisions.telemetry.summary import JOULES_PER_KWH, GpuUse

SIMULATED = "Utilization and energy are simulated: virtual GPUs have none."

_UNKNOWN = "–"


def use_cells(use: GpuUse) -> tuple[str, str]:
    """Mean utilization and energy; a dash for what is unknown.

    >>> use_cells(GpuUse(utilization_mean_ratio=0.5))
    ('50%', '–')
    """
    return format_ratio(use.utilization_mean_ratio), format_energy(use.energy_j)


def format_ratio(ratio: float | None) -> str:
    """A ratio as a percentage; a dash where it is unknown.

    >>> format_ratio(0.934), format_ratio(0.0), format_ratio(0.004)
    ('93%', '0%', 'under 1%')
    """
    if ratio is None:
        return _UNKNOWN
    return "under 1%" if 0 < ratio < 0.005 else f"{ratio:.0%}"


def format_energy(joules: float | None) -> str:
    """Energy in Wh, from 1,000 Wh on in kWh; a dash where it is unknown.

    >>> format_energy(12_960.0), format_energy(46_800_000.0)
    ('3.6 Wh', '13.0 kWh')
    """
    if joules is None:
        return _UNKNOWN
    kwh = joules / JOULES_PER_KWH
    return f"{kwh:,.1f} kWh" if kwh >= 1 else f"{1000 * kwh:.1f} Wh"
