"""Do the clocks agree by which runs are timed, charged and judged?"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from gpu_core.decisions.checks.doctor.finding import Finding, failed, ok, unknown, warning

WARNING_S = 2.0
"""Twice the step of HTTP's header `Date` (RFC 9110, 5.6.7), by which clocks are read here; etcd
warns of its peers from 1 s on (`server/etcdserver/api/rafthttp`, 3.5)."""

FAILURE_S = 30.0
"""The interval of the heartbeats of Prefect's workers (PREFECT_WORKER_HEARTBEAT_SECONDS, 3.8), and
twice the delay from which Prefect calls runs late: beyond it online workers look dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """One clock compared with this machine's.

    Attributes:
        theirs: What it showed; None: unknown.
        ours: What this machine's clock showed in the middle of the question.
        error_s: By how much the difference may be wrong: half of the way there and back, and the
            step of the clock that was read.
    """

    name: str
    theirs: datetime | None
    ours: datetime
    error_s: float


def clock_findings(readings: Iterable[ClockReading]) -> Iterator[Finding]:
    """How far is each clock from this machine's?"""
    for reading in readings:
        if reading.theirs is None:
            yield unknown("clocks.skew", f"{reading.name} did not report its current time")
            continue
        skew_s = (reading.theirs - reading.ours).total_seconds()
        # A deviation within the error of the reading counts as none.
        sure_s = max(0.0, abs(skew_s) - reading.error_s)
        side = "ahead of" if skew_s > 0 else "behind"
        text = f"the clock of {reading.name} is {abs(skew_s):,.1f} s {side} this machine's"
        if sure_s > FAILURE_S:
            yield failed("clocks.skew", text, _REMEDY)
        elif sure_s > WARNING_S:
            yield warning("clocks.skew", text, _REMEDY)
        else:
            # Rounded up: no clock differs by less than 0.0 s.
            bound_s = max(1, math.ceil(reading.error_s * 10)) / 10
            shown = f"{abs(skew_s):.1f} s" if sure_s else f"less than {bound_s:.1f} s"
            yield ok("clocks.skew", f"{reading.name} and this machine differ by {shown}")


_REMEDY = "please synchronize both clocks with a time server (e.g. chrony or systemd-timesyncd)"
