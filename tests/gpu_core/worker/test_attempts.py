"""Attempts whose record may or may not have reached the ledger."""

from datetime import UTC, datetime
from uuid import uuid4

import anyio
import pytest
import sqlalchemy as sa
from prefect.client.schemas.objects import FlowRun

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.cluster import NodeShare, Placement
from gpu_core.decisions.policy import Policy
from gpu_core.decisions.request import GpuRequest, RunLimits
from gpu_core.decisions.workload import Workload
from gpu_core.worker.attempts import OpenAttempts
from gpu_core.worker.demand import Demand

NOW = datetime.now(UTC)


def demand(flow_run):
    return Demand(
        flow_run=flow_run,
        flow_name="train",
        deployment=None,
        queue="medium",
        request=GpuRequest(),
        limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
        workload=Workload(
            workload_id=str(flow_run.id), name="run", priority=1, submitted_at=NOW, gpu_count=1
        ),
    )


def test_an_attempt_stays_known_when_the_ledger_fails_while_it_is_written_down(tmp_path):
    """Nobody can tell whether the record arrived, so it has to be withdrawn, not forgotten."""
    run = FlowRun(id=uuid4(), flow_id=uuid4())
    placement = Placement(
        gpu_type="a10g", capacity_type="on-demand", shares=(NodeShare(node="n", gpu_ids=("0",)),)
    )
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        engine = sa.create_engine(f"sqlite:///{tmp_path / 'ledger.db'}")
        with engine.begin() as connection:
            connection.execute(
                sa.text(
                    "CREATE TRIGGER broken BEFORE INSERT ON runs "
                    "BEGIN SELECT RAISE(ABORT, 'disk full'); END"
                )
            )
        engine.dispose()
        attempts = OpenAttempts("gpus", "host-1", tmp_path, ledger)

        async def opening():
            key = str(run.id)
            await attempts.open({key: placement}, {key: demand(run)}, {}, Policy(version=1), NOW)

        with pytest.raises(sa.exc.IntegrityError):
            anyio.run(opening)

    assert attempts.of_run(str(run.id)) is not None
