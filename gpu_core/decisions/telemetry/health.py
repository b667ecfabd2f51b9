"""Is a GPU well? From its samples one by one: a single false sample changes nothing.

An XID error is an event of the driver and counts at once. What is measured (temperature, errors,
whether the GPU answers) counts after several samples in a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from gpu_core.decisions.telemetry.samples import GpuSample
from gpu_core.decisions.telemetry.xids import XidClass, xid_class, xid_text

HOT_C = 85.0
"""H100 and A100 slow down at 87 C (profiles of NVIDIA's k8s-test-infra): runs move before that. The
device's own slowdown threshold counts where it is lower."""

# A device that names a lower threshold, such as 0, does not know it.
_LOWEST_THRESHOLD_C = 60.0

HOT_SAMPLES = 10
"""Samples in a row: a peak of some seconds is not a fault of the cooling."""

SURE_SAMPLES = 3
"""Samples in a row for what cannot change by itself: errors, rows of memory, no answer."""


class Verdict(StrEnum):
    """How a GPU is, the worst last. A stable contract: metrics and alerts match on it."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    """It is in use; a person should look at it."""
    DRAIN = "drain"
    """No run may use it until a person has looked at it."""
    RESET = "reset"
    """The same, and it has to be reset."""
    REPLACE = "replace"
    """The same, and it is to be replaced."""

    @property
    def is_usable(self) -> bool:
        """May runs use the GPU?"""
        return self in (Verdict.HEALTHY, Verdict.DEGRADED)


_SEVERITY = {verdict: place for place, verdict in enumerate(Verdict)}

_OF_XID: Mapping[XidClass, tuple[Verdict, str]] = {
    XidClass.DRAIN: (Verdict.DRAIN, "run `nvidia-smi -q` and NVIDIA's diagnostics"),
    XidClass.RESET: (Verdict.RESET, "reset it with `nvidia-smi --gpu-reset`"),
    XidClass.RESTART: (Verdict.RESET, "restart the machine"),
    XidClass.UNKNOWN: (Verdict.DEGRADED, "look it up in NVIDIA's list of XID errors"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How a GPU is, and why."""

    verdict: Verdict
    reason: str
    """A clause for people."""
    remedy: str
    """What a person should do."""
    found_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHealth:
    """What is known of one GPU so far. Begin with `GpuHealth(gpu_id=...)`."""

    gpu_id: str
    finding: Finding | None = None
    """The worst so far; None: it is healthy."""
    in_a_row: Mapping[str, int] = field(default_factory=dict)
    """How many samples in a row had each of the conditions."""
    ecc_uncorrected: int | None = None
    """The counter in the first sample: what happened before says nothing about now."""

    @property
    def verdict(self) -> Verdict:
        """How is it?"""
        return Verdict.HEALTHY if self.finding is None else self.finding.verdict

    def with_sample(self, sample: GpuSample) -> "GpuHealth":
        """What is known after one more sample. A finding stays: only a person takes it back."""
        first = self.ecc_uncorrected if self.ecc_uncorrected is not None else sample.ecc_uncorrected
        seen = _conditions(sample, first)
        counts = {name: self.in_a_row.get(name, 0) + 1 for name in seen}
        sure = [finding for name, finding in seen.items() if counts[name] >= _needed(name)]
        worst = self.finding
        for finding in (*_of_xids(sample), *sure):
            if worst is None or _SEVERITY[finding.verdict] > _SEVERITY[worst.verdict]:
                worst = finding
        return replace(self, finding=worst, in_a_row=counts, ecc_uncorrected=first)


def hot_from_c(sample: GpuSample) -> float:
    """From which temperature is this GPU too hot? The lower of 85 C and its own threshold."""
    slowdown_c = sample.slowdown_temperature_c
    if slowdown_c is None or slowdown_c < _LOWEST_THRESHOLD_C:
        return HOT_C
    return min(HOT_C, slowdown_c)


def _needed(condition: str) -> int:
    return HOT_SAMPLES if condition == "hot" else SURE_SAMPLES


def _of_xids(sample: GpuSample) -> list[Finding]:
    found = []
    for code in sample.xids:
        consequence = _OF_XID.get(xid_class(code))
        if consequence is not None:
            verdict, remedy = consequence
            found.append(_finding(sample, verdict, xid_text(code), remedy))
    return found


def _conditions(sample: GpuSample, first_ecc: int | None) -> dict[str, Finding]:
    """The conditions that this sample has, by name."""
    found: dict[str, Finding] = {}
    if sample.is_lost:
        found["lost"] = _finding(
            sample, Verdict.RESET, "the GPU does not answer", "restart the machine"
        )
    limit_c = hot_from_c(sample)
    if sample.temperature_c is not None and sample.temperature_c >= limit_c:
        reason = f"{sample.temperature_c:.0f} °C, from {limit_c:.0f} °C on it is too hot"
        found["hot"] = _finding(sample, Verdict.DRAIN, reason, "check its cooling")
    errors = sample.ecc_uncorrected
    if errors is not None and first_ecc is not None and errors > first_ecc:
        reason = f"{errors - first_ecc} uncorrected memory errors"
        found["ecc"] = _finding(
            sample, Verdict.RESET, reason, "reset it with `nvidia-smi --gpu-reset`"
        )
    rows = sample.remapped_rows
    if rows is not None and rows.has_failed:
        reason = "no spare rows of memory are left"
        found["rows failed"] = _finding(sample, Verdict.REPLACE, reason, "replace it")
    elif rows is not None and rows.is_pending:
        reason = "rows of memory wait for a reset to be replaced"
        found["rows pending"] = _finding(
            sample, Verdict.RESET, reason, "reset it with `nvidia-smi --gpu-reset`"
        )
    return found


def _finding(sample: GpuSample, verdict: Verdict, reason: str, remedy: str) -> Finding:
    return Finding(verdict=verdict, reason=reason, remedy=remedy, found_at=sample.at)
