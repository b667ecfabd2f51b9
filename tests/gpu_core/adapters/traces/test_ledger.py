"""The ledger as a trace: which runs, when they came, and how long their work takes."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gpu_core.adapters.ledger import Ledger, LedgerRefused
from gpu_core.adapters.traces.ledger import read_ledger
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.work_done import work_s
from gpu_core.decisions.simulation.cluster.trace import MOST_S, TraceJob
from gpu_core.testing.builders.attempts import admit, at, make_attempt, make_run

ENDED = {"end_reason": EndReason.COMPLETED}
PREEMPTED = {"end_reason": EndReason.PREEMPTED}
SAVES_NOTHING = {
    "has_resumed": False,
    "checkpoint_interval_s": MOST_S,
    "checkpoint_stall_s": MOST_S,
}


def attempt(number: int, start_h: float, end_h: float | None, **fields: Any) -> Any:
    """An attempt of run-1 from one hour after noon to another."""
    moments = {
        "admitted_at": at(start_h),
        "started_at": at(start_h),
        "released_at": None if end_h is None else at(end_h),
    }
    return make_attempt("run-1", number, **(moments | fields))


@pytest.mark.parametrize(
    ("attempts", "hours"),
    [
        pytest.param([attempt(1, 0, 2, **ENDED)], 2, id="never interrupted"),
        pytest.param(
            [attempt(1, 0, 3, checkpointed_at=at(2), **PREEMPTED), attempt(2, 5, 6, **ENDED)],
            3,
            id="the hour after the checkpoint was done again",
        ),
        pytest.param(
            [attempt(1, 0, 3, **PREEMPTED), attempt(2, 5, 9, **ENDED)],
            4,
            id="all was done again",
        ),
        pytest.param(
            [attempt(1, 0, 2, started_at=at(0.5), **ENDED)], 1.5, id="starting is no work"
        ),
        pytest.param([attempt(1, 0, 2, started_at=None, **ENDED)], 2, id="never seen to start"),
    ],
)
def test_work(attempts: list[Any], hours: float) -> None:
    """Work counts once."""
    assert work_s(attempts) == pytest.approx(hours * 3600)


def ledger_file(folder: Path, **attempts_by_run: list[Any]) -> Path:
    """A ledger with these runs; each is submitted an hour after the one before."""
    path = folder / "ledger.db"
    with Ledger.open(f"sqlite:///{path}") as ledger:
        for hour, (run_id, attempts) in enumerate(attempts_by_run.items()):
            run = make_run(run_id, submitted_at=at(hour))
            for fields in attempts:
                admit(ledger, make_attempt(run_id, **fields), run)
    return path


def test_finished_runs_are_jobs(tmp_path: Path) -> None:
    """What still runs, and what waits to resume, has no length yet."""
    path = ledger_file(
        tmp_path,
        done=[{"admitted_at": at(1), "released_at": at(2), "gpu_ids": ("0", "1"), **ENDED}],
        waits=[{"admitted_at": at(1), "released_at": at(2), **PREEMPTED}],
        runs=[{"admitted_at": at(3)}],
        late=[{"admitted_at": at(4), "released_at": at(4.5), **ENDED}],
    )
    ordinary: dict[str, Any] = {
        "team": "vision",
        "user": "ada",
        "deployment": "train/gpu",
        "priority": 1_000,
        **SAVES_NOTHING,
    }
    assert read_ledger(str(path)) == (
        TraceJob(job_id="done", submit_s=0, duration_s=3600, gpu_count=2, **ordinary),
        TraceJob(job_id="late", submit_s=3 * 3600, duration_s=1800, gpu_count=1, **ordinary),
    )


def test_a_run_keeps_its_work_where_those_of_its_deployment_resumed(tmp_path: Path) -> None:
    """Three continued from their newest checkpoint, after 6, 12 and 18 minutes."""
    resumed = {
        f"run-{number}": [
            {
                "admitted_at": at(1),
                "first_step_at": at(1.1),
                "checkpoint": "c",
                "checkpointed_at": at(2),
                "released_at": at(2),
                **PREEMPTED,
            },
            {
                "number": 2,
                "admitted_at": at(3),
                "restored_from": "c",
                "first_step_at": at(3 + number / 10),
                "released_at": at(4),
                **ENDED,
            },
        ]
        for number in (1, 2, 3)
    }
    jobs = read_ledger(str(ledger_file(tmp_path, **resumed)))
    assert [job.has_resumed for job in jobs] == [True] * 3
    assert [job.restart_s for job in jobs] == pytest.approx([720] * 3)
    assert {job.checkpoint_interval_s for job in jobs} == {None}


def test_a_gang_stays_a_gang(tmp_path: Path) -> None:
    """Two nodes with two GPUs each, not four GPUs of one node."""
    shares = tuple(NodeShare(node=node, gpu_ids=("0", "1")) for node in ("n1", "n2"))
    held = {"gpu_ids": ("0", "1", "0", "1"), "shares": shares}
    path = ledger_file(tmp_path, gang=[{"released_at": at(2), **held, **ENDED}])
    [job] = read_ledger(str(path))
    assert (job.nodes, job.gpu_count) == (2, 2)


def test_a_ledger_without_finished_runs_is_refused(tmp_path: Path) -> None:
    """There is nothing to replay."""
    path = ledger_file(tmp_path, runs=[{"admitted_at": at(3)}])
    with pytest.raises(InvalidInput, match="has no finished run"):
        read_ledger(str(path))


def test_a_misspelled_path_creates_nothing(tmp_path: Path) -> None:
    """Opening a ledger would create one."""
    with pytest.raises(InvalidInput, match="is not a file"):
        read_ledger(str(tmp_path / "leger.db"))
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_of_another_version_is_not_upgraded(tmp_path: Path) -> None:
    """Its workers, which are of that version, would not start again."""
    path = ledger_file(tmp_path, done=[{"admitted_at": at(1), "released_at": at(2), **ENDED}])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0006'")
    before = path.read_bytes()
    with pytest.raises(LedgerRefused, match="is of version 0006"):
        read_ledger(str(path))
    assert path.read_bytes() == before
