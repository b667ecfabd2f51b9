"""Proposals whose evidence is measured in runs, from the ledger to the next run and back.

The flows run on a real Prefect server; `carry_on` of `Case` does the part of a worker.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from pydantic import SecretStr

from benchmarks.saved_work import SavedHistory
from benchmarks.saving_histories import FIRST_DAY, LEARNING_DAYS, Work
from benchmarks.shared_work import SharedHistory, Sharing, part_of
from blocks.usage_ledger import UsageLedger
from flows.propose_savings import propose_savings
from flows.verify_savings import verify_savings
from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.proposals import read_proposals
from gpu_core.decisions.model.attempts import Provenance
from gpu_core.decisions.optimization.proposals.kinds import ProposalKind
from gpu_core.decisions.optimization.proposals.proposal import JobValue
from gpu_core.decisions.optimization.proposals.records import ProposalState
from gpu_core.decisions.optimization.proposals.run_facts import Record
from gpu_core.decisions.optimization.proposals.verification import SavingVerdict
from gpu_core.decisions.requests.variables.job_variables import GpuRequest, parse_request
from tests.flows.test_apply_saving import APPROVE, Case, deploy

DAY = FIRST_DAY + timedelta(days=LEARNING_DAYS)
WORK = Work(
    deployment="train/gpu",
    runs_per_weekday=6,
    hours=3.0,
    spread=0.2,
    gpu_type="a100-80gb",
    gpu_count=1,
    capacity_type="spot",
    price_micro_usd=1_200_000,
)
SAVES = replace(WORK, per_hour=0.4, checkpoint_s=3600.0, stall_s=10.0)
LIGHT = replace(WORK, hours=1.0, capacity_type="on-demand", price_micro_usd=3_600_000)
SHARING = Sharing(busy=0.1, neighbors_busy=0.5, parts=4, memory_gib=4.0)


def of_saves(name: str, value: JobValue, first: date, days: int) -> Iterable[Record]:
    """Runs that save each hour, or as often as the change says."""
    work = replace(SAVES, deployment=name)
    changed = work if value is None else replace(work, checkpoint_s=float(value))
    return SavedHistory((1, days), f"saves-{days}").days(changed, first, days)


def of_light(name: str, value: JobValue, first: date, days: int) -> Iterator[Record]:
    """Runs that use a tenth of a GPU, alone or with others; and others that hold a quarter."""
    work, history = replace(LIGHT, deployment=name), SharedHistory((2, days), f"light-{days}")
    if value is not None:
        yield from history.shared(work, SHARING, first, days)
        return
    yield from history.alone(work, SHARING, first, days)
    others = replace(work, deployment="others/gpu", runs_per_weekday=1)
    for run, attempts in SharedHistory((3, days), "others").days(others, first, days):
        yield run, tuple(part_of(attempt, SHARING.share_milli) for attempt in attempts)


@dataclass(frozen=True, slots=True)
class Story:
    """A kind of proposal, the runs before and after it, and what the next run asks for."""

    kind: ProposalKind
    before: dict[str, object]
    runs: Callable[[str, JobValue, date, int], Iterable[Record]]
    asked: Callable[[GpuRequest], JobValue]


STORIES = [
    pytest.param(
        Story(
            ProposalKind.CHECKPOINT_INTERVAL,
            {"checkpoint_interval": "1h", "team": "x"},
            of_saves,
            lambda request: request.checkpoint_interval_s,
        ),
        id="a checkpoint interval",
    ),
    pytest.param(
        Story(ProposalKind.SHARING, {"team": "x"}, of_light, lambda request: request.gpu_fraction),
        id="a quarter of a GPU",
    ),
]


def add(ledger: Ledger, records: Iterable[Record]) -> None:
    """Add these runs, as what they are."""
    ledger.import_records(
        (replace(run, provenance=Provenance.GENERATED), attempts) for run, attempts in records
    )


def next_request(client: SyncPrefectClient, deployment: UUID) -> GpuRequest:
    """What the next run of this deployment asks for, by the job variables that it gets."""
    run = client.create_flow_run_from_deployment(deployment)
    of_deployment = client.read_deployment(deployment).job_variables
    return parse_request({**of_deployment, **(run.job_variables or {})}, ())


@pytest.mark.parametrize("story", STORIES)
def test_it_is_proposed_approved_seen_by_the_next_run_verified_and_undone(
    story: Story, prefect_server: None, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    UsageLedger(url=SecretStr(url)).save("default", overwrite=True)
    with get_client(sync_client=True) as client, Ledger.open(url) as ledger:
        trained, name = deploy(client, "train", **story.before)
        asking, _ = deploy(client, "apply-saving")
        add(ledger, story.runs(name, None, FIRST_DAY, LEARNING_DAYS))
        propose_savings(DAY, with_generated=True)
        # Others may be proposed as well, such as spot by the prices of the catalog.
        (record,) = (
            each
            for each in read_proposals(ledger).values()
            if (each.proposal.kind, each.proposal.deployment) == (story.kind, name)
        )
        assert record.state is ProposalState.PROPOSED
        case = Case(client, ledger, url, record.proposal, trained, asking)
        ((variable, value),) = record.proposal.job_variables.items()
        assert story.asked(next_request(client, trained)) != value

        run = case.start()
        assert case.state(run).startswith("Suspended")
        assert case.variables == story.before
        case.answer(run, APPROVE)
        assert (case.record.state, case.record.decided_by) == (ProposalState.APPLIED, "ada")
        assert case.variables == story.before | {variable: value}
        assert story.asked(next_request(client, trained)) == value

        applied_at = case.record.applied_at
        assert applied_at is not None
        add(ledger, story.runs(name, value, applied_at.date() + timedelta(days=1), 12))
        verify_savings(applied_at + timedelta(days=15))
        found = case.record.verification
        assert found is not None
        assert found.verdict in (SavingVerdict.AS_PREDICTED, SavingVerdict.BETTER)

        assert case.undo() == 0
        assert case.variables == story.before
        assert case.record.state is ProposalState.UNDONE
