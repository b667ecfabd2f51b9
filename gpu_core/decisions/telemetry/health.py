"""Is a GPU well? From its samples one by one: a single false sample changes nothing.

An XID error is an event of the driver and counts at once. What is measured (temperature, errors,
whether the GPU answers) counts after several samples in a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from gpu_core.decisions.model.gpu_health import HealthVerdict
from gpu_core.decisions.telemetry.error_counter import SURE_READINGS, ErrorCounter
from gpu_core.decisions.telemetry.samples import GpuSample, ThrottleReason
from gpu_core.decisions.telemetry.xids import XidClass, xid_class, xid_text

HOT_C = 85.0
"""H100 and A100 slow down at 87 C (profiles of NVIDIA's k8s-test-infra): runs move before that. The
device's own slowdown threshold counts where it is lower."""

# A device that names a lower threshold, such as 0, does not know it.
_LOWEST_THRESHOLD_C = 60.0

HOT_SAMPLES = 10
"""Samples in a row: a peak of some seconds is not a fault of the cooling."""

SURE_SAMPLES = SURE_READINGS
"""Samples in a row for what cannot change by itself: errors, rows of memory, no answer."""

HOT_FOR = timedelta(seconds=HOT_SAMPLES - 1)
"""`SURE_SAMPLES` in a row over this time are as good as `HOT_SAMPLES` at one a second: scrapes are
seldom."""

STUCK_FOR = timedelta(minutes=5)
"""At zero with a job on it: longer than the pauses of a training between two steps."""

LONGEST_GAP = timedelta(seconds=150)
"""Samples that are further apart are not in a row: two scrapes of a minute are missing."""


_SEVERITY = {verdict: place for place, verdict in enumerate(HealthVerdict)}

_OF_XID: Mapping[XidClass, tuple[HealthVerdict, str]] = {
    XidClass.DRAIN: (HealthVerdict.DRAIN, "run `nvidia-smi -q` and NVIDIA's diagnostics"),
    XidClass.RESET: (HealthVerdict.RESET, "reset it with `nvidia-smi --gpu-reset`"),
    XidClass.RESTART: (HealthVerdict.RESET, "restart the machine"),
    XidClass.UNKNOWN: (HealthVerdict.DEGRADED, "see NVIDIA's list of XID errors"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFinding:
    """The health of a GPU, and its cause."""

    verdict: HealthVerdict
    reason: str
    """A clause for people."""
    remedy: str
    """The remedy for a person."""
    found_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHealth:
    """The state of one GPU so far. Begin with `GpuHealth(gpu_id=...)`."""

    gpu_id: str
    finding: HealthFinding | None = None
    """The worst so far; None: it is healthy."""
    in_a_row: Mapping[str, int] = field(default_factory=dict)
    """How many samples in a row had each of the conditions."""
    since: Mapping[str, datetime] = field(default_factory=dict)
    """The first of these samples, by condition."""
    sampled_at: datetime | None = None
    """The last sample."""
    ecc_uncorrected: ErrorCounter = field(default_factory=ErrorCounter)

    @property
    def verdict(self) -> HealthVerdict:
        """The verdict on the GPU: that of the finding, else healthy."""
        return HealthVerdict.HEALTHY if self.finding is None else self.finding.verdict

    def with_sample(self, sample: GpuSample, *, are_peers_busy: bool = False) -> "GpuHealth":
        """The state after one more sample. A finding stays: only a person takes it back.

        Args:
            sample: Of this GPU.
            are_peers_busy: Whether all other GPUs of its run compute.
        """
        errors = self.ecc_uncorrected.with_reading(sample.ecc_uncorrected)
        seen = _conditions(sample) | _at_zero(sample, are_peers_busy=are_peers_busy)
        is_in_a_row = self.sampled_at is None or sample.at - self.sampled_at <= LONGEST_GAP
        before = self.in_a_row if is_in_a_row else {}
        counts = {name: before.get(name, 0) + 1 for name in seen}
        since = {name: self.since[name] if name in before else sample.at for name in seen}
        sure = [
            finding
            for name, finding in seen.items()
            if _is_sure(name, counts[name], sample.at - since[name])
        ]
        worst = self.finding
        for finding in (*_of_xids(sample), *_of_errors(sample, errors.new_errors), *sure):
            if worst is None or _SEVERITY[finding.verdict] > _SEVERITY[worst.verdict]:
                worst = finding
        return replace(
            self,
            finding=worst,
            in_a_row=counts,
            since=since,
            sampled_at=sample.at,
            ecc_uncorrected=errors,
        )


def hot_from_c(sample: GpuSample) -> float:
    """The temperature from which this GPU is too hot: the lower of 85 C and its own threshold."""
    slowdown_c = sample.slowdown_temperature_c
    if slowdown_c is None or slowdown_c < _LOWEST_THRESHOLD_C:
        return HOT_C
    return min(HOT_C, slowdown_c)


_AT_ZERO = frozenset({"held down at zero", "at zero alone"})

# What the hardware itself says: power caps and software's thermal limits are common at full load.
_HARDWARE = frozenset(
    {ThrottleReason.HARDWARE, ThrottleReason.HARDWARE_THERMAL, ThrottleReason.POWER_BRAKE}
)


def _at_zero(sample: GpuSample, *, are_peers_busy: bool) -> dict[str, HealthFinding]:
    """Does nothing run though a job is on it, and does anything else say that it is at fault?

    A rank that evaluates or saves leaves its GPU at zero while the others spin in a collective, so
    that their agreement alone takes no GPU out of use.
    """
    if sample.utilization_ratio != 0 or not sample.process_ids:
        return {}
    held_down = (sample.throttle_reasons or frozenset()) & _HARDWARE
    if held_down:
        why = ", ".join(sorted(held_down))
        reason = (
            f"no work of its job is running and its clocks are throttled by the hardware ({why})"
        )
        remedy = "check its power supply and cooling"
        return {"held down at zero": _finding(sample, HealthVerdict.DRAIN, reason, remedy)}
    if are_peers_busy:
        reason = "no work of its job is running while all other GPUs of the job are active"
        return {"at zero alone": _finding(sample, HealthVerdict.DEGRADED, reason, "check its run")}
    return {}


def _is_sure(condition: str, in_a_row: int, lasted: timedelta) -> bool:
    """Do this number of samples in a row, over this time, confirm the condition?"""
    if in_a_row < SURE_SAMPLES:
        return False
    if condition in _AT_ZERO:
        return lasted >= STUCK_FOR
    is_peak = in_a_row < HOT_SAMPLES and lasted < HOT_FOR
    return condition not in ("hot", "sensor") or not is_peak


def _of_xids(sample: GpuSample) -> list[HealthFinding]:
    found = []
    for code in sample.xids:
        consequence = _OF_XID.get(xid_class(code))
        if consequence is not None:
            verdict, remedy = consequence
            found.append(_finding(sample, verdict, xid_text(code), remedy))
    return found


def _of_errors(sample: GpuSample, new_errors: int) -> list[HealthFinding]:
    if not new_errors:
        return []
    reason, remedy = (
        f"{new_errors} uncorrected memory errors",
        "reset it with `nvidia-smi --gpu-reset`",
    )
    return [_finding(sample, HealthVerdict.RESET, reason, remedy)]


def _is_beyond_shutdown(sample: GpuSample) -> bool:
    """Is this over the temperature at which the GPU turns itself off? Then it is no measurement."""
    shutdown_c, slowdown_c = sample.shutdown_temperature_c, sample.slowdown_temperature_c
    if sample.temperature_c is None or shutdown_c is None or shutdown_c < _LOWEST_THRESHOLD_C:
        return False
    return sample.temperature_c > shutdown_c and (slowdown_c is None or slowdown_c < shutdown_c)


def _conditions(sample: GpuSample) -> dict[str, HealthFinding]:
    """The conditions that this sample has, by name."""
    found: dict[str, HealthFinding] = {}
    if sample.is_lost:
        found["lost"] = _finding(
            sample, HealthVerdict.RESET, "the GPU is not responding", "restart the machine"
        )
    limit_c = hot_from_c(sample)
    if _is_beyond_shutdown(sample):
        reason = (
            f"{sample.temperature_c:.0f} °C, and it turns itself off at "
            f"{sample.shutdown_temperature_c:.0f} °C: its sensor is at fault"
        )
        found["sensor"] = _finding(sample, HealthVerdict.DEGRADED, reason, "check its sensor")
    elif sample.temperature_c is not None and sample.temperature_c >= limit_c:
        reason = f"{sample.temperature_c:.0f} °C, from {limit_c:.0f} °C on it is too hot"
        found["hot"] = _finding(sample, HealthVerdict.DRAIN, reason, "check its cooling")
    rows = sample.remapped_rows
    if rows is not None and rows.has_failed:
        reason = "no spare memory rows are left"
        found["rows failed"] = _finding(sample, HealthVerdict.REPLACE, reason, "replace it")
    elif rows is not None and rows.is_pending:
        reason = "memory rows are pending replacement by a reset"
        found["rows pending"] = _finding(
            sample, HealthVerdict.RESET, reason, "reset it with `nvidia-smi --gpu-reset`"
        )
    return found


def _finding(sample: GpuSample, verdict: HealthVerdict, reason: str, remedy: str) -> HealthFinding:
    return HealthFinding(verdict=verdict, reason=reason, remedy=remedy, found_at=sample.at)
