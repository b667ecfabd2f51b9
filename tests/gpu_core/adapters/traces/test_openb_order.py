"""The order in which OpenB's pods are offered."""

from pathlib import Path

import pytest

from gpu_core.adapters.traces.openb import read_openb_order
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.simulation.cluster.trace import TraceJob

PODS = tuple(
    TraceJob(job_id=f"openb-pod-000{i}", submit_s=900, duration_s=1, gpu_count=i) for i in (1, 2)
)


def test_offers_come_in_the_files_order(tmp_path: Path) -> None:
    """A pod that is named again is another one like it."""
    path = tmp_path / "order.txt"
    path.write_text("0002\n0001\n0002\n")
    jobs = read_openb_order(path, PODS)
    assert [(j.job_id, j.gpu_count) for j in jobs] == [
        ("openb-pod-0002", 2),
        ("openb-pod-0001", 1),
        ("openb-pod-0002/2", 2),
    ]


def test_an_unknown_pod_is_named_with_its_line(tmp_path: Path) -> None:
    """Line 2."""
    path = tmp_path / "order.txt"
    path.write_text("0002\n0007\n")
    with pytest.raises(InvalidInput, match=r"order\.txt:2.*0007"):
        read_openb_order(path, PODS)
