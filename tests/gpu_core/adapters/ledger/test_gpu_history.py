"""Minutes of GPUs in the ledger: added once, read by span, forgotten by age, and small."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.telemetry.history import GpuWindow

HOUR = datetime(2026, 11, 25, 12, tzinfo=UTC)
LONG_AGO = HOUR - timedelta(days=365)


def window(minute: int, gpu_id: str = "GPU-a", utilization: float | None = 0.5) -> GpuWindow:
    summary = GpuSummary(
        gpu_id=gpu_id,
        samples=60,
        utilization_mean_ratio=utilization,
        utilization_p95_ratio=0.99,
        busy_ratio=1.0,
        sm_active_mean_ratio=0.62,
        memory_used_max_bytes=40 * 2**30,
        temperature_max_c=66.0,
        energy_j=30_000.0,
    )
    return GpuWindow(minute=HOUR + timedelta(minutes=minute), summary=summary)


def read(ledger: Ledger, first: int, end: int, *gpu_ids: str) -> tuple[GpuWindow, ...]:
    since, until = (HOUR + timedelta(minutes=minute) for minute in (first, end))
    return ledger.gpu_windows(since, until, gpu_ids or None)


def test_windows_are_added_to_their_hour_and_read_by_span(ledger: Ledger) -> None:
    ledger.add_gpu_windows([window(58), window(59, "GPU-b")], LONG_AGO)
    ledger.add_gpu_windows([window(59), window(60), window(61)], LONG_AGO)
    assert read(ledger, 0, 120) == (
        *(window(58), window(59), window(59, "GPU-b")),
        *(window(60), window(61)),
    )
    assert read(ledger, 59, 61) == (window(59), window(59, "GPU-b"), window(60))
    assert read(ledger, 0, 120, "GPU-b") == (window(59, "GPU-b"),)


def test_a_minute_that_is_there_stays_as_it_is(ledger: Ledger) -> None:
    """As where the workers of two pools sample the GPUs of one machine."""
    ledger.add_gpu_windows([window(1)], LONG_AGO)
    ledger.add_gpu_windows([window(1, utilization=0.1), window(2)], LONG_AGO)
    assert read(ledger, 0, 60) == (window(1), window(2))


def test_what_is_older_than_the_policy_says_is_forgotten(ledger: Ledger) -> None:
    ledger.add_gpu_windows([window(0), window(60)], LONG_AGO)
    ledger.add_gpu_windows([window(120)], HOUR + timedelta(minutes=60))
    assert read(ledger, 0, 180) == (window(60), window(120))


def test_a_month_of_64_gpus_has_under_200_megabytes(tmp_path: Path) -> None:
    """By 12 hours of 64 GPUs in SQLite, written minute by minute as a worker does."""
    path = tmp_path / "ledger.db"
    gpu_ids = [f"GPU-5f2a1c3e-7d10-4b6f-9a2e-0c4d8b1e6f{number:02d}" for number in range(64)]
    with Ledger.open(f"sqlite:///{path}") as ledger:
        ledger.add_gpu_windows([window(0)], LONG_AGO)
    empty_bytes = path.stat().st_size
    hours = 12
    with Ledger.open(f"sqlite:///{path}") as ledger:
        for first in range(0, hours * 60, 10):
            minutes = range(first, first + 10)
            ledger.add_gpu_windows([window(m, g) for m in minutes for g in gpu_ids], LONG_AGO)
    used_bytes = path.stat().st_size - empty_bytes
    month_bytes = used_bytes / hours * 24 * 30
    print(f"{month_bytes / 1e6:.0f} MB")
    assert month_bytes < 200e6
