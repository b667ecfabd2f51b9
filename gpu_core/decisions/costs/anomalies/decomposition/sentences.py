"""A contribution as people read it: what, now and before, with units."""

from fractions import Fraction

from gpu_core.decisions.costs.anomalies.decomposition.decomposition import Contribution
from gpu_core.decisions.costs.anomalies.decomposition.drivers import Driver, Level
from gpu_core.decisions.costs.usage.usage import US_PER_HOUR, round_half_up
from gpu_core.decisions.model.units import format_usd

_HOURS_LOST = {
    Driver.IDLE: "Idle GPUs of {}",
    Driver.RETRIES: "Failed attempts of {} that were retried",
    Driver.FAULTS: "Failed runs of {}",
    Driver.INTERRUPTIONS: "Interruptions and preemptions of {}",
    Driver.NODE_WAIT: "{} waiting on its nodes",
}


def contribution_text(cause: Contribution) -> str:
    """`Runs of train/gpu: 9 instead of 2.1`."""
    name, before, now = cause.subject, cause.before, cause.now
    match cause.driver:
        case Driver.NEW:
            return f"{name} is new, with no runs in the previous days"
        case Driver.STOPPED:
            return f"{name} did not run"
        case Driver.RUNS:
            return f"Runs of {name}: {_number(now)} instead of {_number(before)}"
        case Driver.RUN_TIME:
            return f"Hours per run of {name}: {_number(now)} instead of {_number(before)}"
        case Driver.GPU_COUNT:
            return f"GPUs per run of {name}: {_number(now)} instead of {_number(before)}"
        case Driver.PRICE:
            return f"Price per GPU-hour of {name}: {_rate(now)} instead of {_rate(before)}"
        case Driver.CPU_AND_MEMORY:
            return f"CPU and memory of {name}: {_rate(now)} instead of {_rate(before)} per GPU-hour"
        case Driver.GPU_TYPE:
            return f"GPU type of {name}: {now} instead of {before}"
        case Driver.CAPACITY_TYPE:
            return f"Capacity type of {name}: {now} instead of {before}"
        case Driver.ZONE:
            return f"Zone of {name}: {now} instead of {before}"
        case Driver.OTHER:
            return "Not attributable to specific runs"
    noun = _HOURS_LOST[cause.driver].format(name)
    return f"{noun}: {_number(now)} GPU-hours instead of {_number(before)}"


def signed_usd(micro_usd: int) -> str:
    """`+$12.50`, `-$3.00`."""
    return f"{'-' if micro_usd < 0 else '+'}{format_usd(abs(micro_usd))}"


def _number(value: Level) -> str:
    if not isinstance(value, int | Fraction):
        return str(value)
    number = float(value)
    if number >= 99.95:
        return f"{number:,.0f}"
    return f"{number:.1f}".removesuffix(".0") if number >= 0.05 or not number else f"{number:.1g}"


def _rate(value: Level) -> str:
    """A price for each GPU-hour."""
    if not isinstance(value, int | Fraction):
        return "unknown"
    return format_usd(round_half_up(Fraction(value) * US_PER_HOUR))
