"""A proposal from the ledger to the deployment and back: proposed, approved, applied, verified."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from pydantic import SecretStr

from benchmarks.saving_histories import FIRST_DAY, LEARNING_DAYS, History, Work
from blocks.usage_ledger import UsageLedger
from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.proposals import read_proposals
from gpu_core.cli.main import main
from gpu_core.decisions.model.attempts import Provenance
from gpu_core.decisions.optimization.proposals.proposal import ProposalKind
from gpu_core.decisions.optimization.proposals.records import ProposalRecord, ProposalState
from gpu_core.decisions.optimization.proposals.verification import SavingVerdict
from tests.end_to_end.conftest import ENGINE, FLOWS, closed
from tests.support.browser import Page, browser
from tests.support.prefect_stack import Pool
from tests.support.waiting import wait_for

DAY = FIRST_DAY + timedelta(days=LEARNING_DAYS)
ANSWER = ("approve", "ada")
_FIELD = "document.querySelectorAll('[role=dialog] textarea')[%d]"


@dataclass(frozen=True, slots=True)
class Loop:
    """A pool whose ledger holds a history in which half the GPUs would save money."""

    pool: Pool
    trained: str
    """The deployment that the history is of."""
    name: str
    """Its name, as the ledger has it."""

    def start(self, file: str, **parameters: object) -> str:
        """Start one of the loop's flows, each in a file of its own name."""
        deployment = self.pool.deploy(f"flows/{file}.py:{file}", gpu_count=0, **ENGINE)
        return self.pool.submit(deployment, file, parameters)

    def complete(self, run: str) -> None:
        """Wait for a run to end well."""
        self.pool.wait_until(run, "Completed", "Failed", "Crashed")
        assert self.pool.state(run) == "Completed", self.pool.logs(run)

    def gpu_count(self) -> int:
        """How many GPUs the deployment asks for."""
        return self.pool.call("GET", f"/deployments/{self.trained}")["job_variables"]["gpu_count"]

    def record(self) -> ProposalRecord:
        """The proposal of another number of GPUs; the history may show a saving by spot as well."""
        with Ledger.open(self.pool.ledger_url) as ledger:
            (found,) = (
                record
                for record in read_proposals(ledger).values()
                if record.proposal.kind is ProposalKind.GPU_COUNT
            )
        return found

    def add_runs(self, work: Work, first: datetime, days: int, seed: int) -> None:
        """Add generated runs to the ledger."""
        with Ledger.open(self.pool.ledger_url) as ledger:
            ledger.import_records(
                (
                    replace(
                        run,
                        flow_run_id=f"{seed}-{run.flow_run_id}",
                        pool=self.pool.name,
                        provenance=Provenance.GENERATED,
                    ),
                    [
                        replace(
                            attempt,
                            attempt_id=f"{seed}-{attempt.attempt_id}",
                            flow_run_id=f"{seed}-{run.flow_run_id}",
                            pool=self.pool.name,
                        )
                        for attempt in attempts
                    ],
                )
                for run, attempts in History(seed).days(work, first.date(), days)
            )


def usual(deployment: str) -> Work:
    """On 4 GPUs; on half of them it takes one and a half times the time."""
    return Work(
        deployment=deployment,
        runs_per_weekday=3,
        hours=1.0,
        spread=0.2,
        gpu_type="a100-80gb",
        gpu_count=4,
        capacity_type="on-demand",
        price_micro_usd=3_600_000,
    )


def halved(work: Work) -> Work:
    """The same on half the GPUs."""
    return replace(work.faster(1.5), gpu_count=2, runs_per_weekday=1.5)


def loop_on(pool: Pool, variables: dict[str, object]) -> Loop:
    """A deployment with a history, and the block with the address of the pool's ledger."""
    with temporary_settings({PREFECT_API_URL: f"{pool.ui_url}/api"}):
        UsageLedger(url=SecretStr(pool.ledger_url)).save(pool.name)
    trained = pool.deploy(f"{FLOWS}:do_nothing", gpu_count=4, **variables)
    found = pool.call("GET", f"/deployments/{trained}")
    loop = Loop(pool, trained, f"do_nothing/{found['name']}")
    begins = datetime(FIRST_DAY.year, FIRST_DAY.month, FIRST_DAY.day, tzinfo=UTC)
    loop.add_runs(usual(loop.name), begins, LEARNING_DAYS, seed=10)
    loop.add_runs(halved(usual(loop.name)), begins, LEARNING_DAYS, seed=20)
    return loop


def approve_in_ui(pool: Pool, run: str, profile: Path) -> None:
    """Open the page of a suspended run, press Resume, type the answer and a name, and submit."""
    with browser(profile) as page:
        page.open(f"{pool.ui_url}/runs/flow-run/{run}", 1440)
        page.wait_for("Suspended", "Resume")
        page.click("Resume")
        page.wait_for("gpu_count: 2", "approve or decline", "Your name", "Submit")
        wait_for(lambda: is_answered(page), "the page takes the answer")
        wait_for(lambda: submits(page) and pool.state(run) != "Suspended", "the run is resumed")


def is_answered(page: Page) -> bool:
    """Type what the fields do not hold yet: a page that is still built drops what is typed."""
    for number, text in enumerate(ANSWER):
        if page.evaluate(f"{_FIELD % number}.value") != text:
            page.evaluate(f"{_FIELD % number}.focus()")
            page.call("Input.insertText", text=text)
            return False
    return True


def submits(page: Page) -> bool:
    """Press Submit if the dialog is still open: a dialog that is still moving is missed."""
    if page.evaluate("document.querySelector('[role=dialog]') !== null"):
        page.click("Submit")
    return True


@pytest.mark.browser
def test_a_proposal_is_approved_in_the_ui_applied_after_a_restart_seen_verified_and_undone(
    server, pool, journal, tmp_path: Path, capsys
):
    loop = loop_on(pool, journal.variables())
    pool.start_worker()
    loop.complete(loop.start("propose_savings", day=DAY.isoformat(), with_generated=True))
    record = loop.record()
    name = record.proposal.proposal_id
    assert (record.state, record.proposal.job_variables) == (
        *(ProposalState.PROPOSED, {"gpu_count": 2}),
    )

    run = loop.start("apply_saving", proposal_id=name, dry_run=False)
    pool.wait_until(run, "Suspended", "Failed")
    wait_for(lambda: closed(pool, run, 1), "a suspended run holds nothing")
    pool.stop_worker()
    approve_in_ui(pool, run, tmp_path / "profile")
    assert loop.gpu_count() == 4
    server.restart()
    with server.client() as http:
        # On a busy machine its first answers after a restart are errors of its database.
        wait_for(lambda: http.get(f"/work_pools/{pool.name}").is_success, "the server answers")
    pool.start_worker()
    loop.complete(run)
    record = loop.record()
    assert (record.state, record.decided_by) == (ProposalState.APPLIED, "ada")
    assert loop.gpu_count() == 2

    next_run = pool.submit(loop.trained, "next")
    loop.complete(next_run)
    wait_for(lambda: closed(pool, next_run, 1), "its attempt is closed")
    assert pool.attempts(next_run)[0].gpu_count == 2

    assert record.applied_at is not None
    tomorrow, later = (record.applied_at + timedelta(days=days) for days in (1, 15))
    loop.add_runs(halved(usual(loop.name)), tomorrow, days=10, seed=30)
    loop.complete(loop.start("verify_savings", now=later.isoformat()))
    verification = loop.record().verification
    assert verification is not None
    # The tiny run of this test is among the runs that are measured.
    assert verification.verdict in (SavingVerdict.AS_PREDICTED, SavingVerdict.BETTER)

    with temporary_settings({PREFECT_API_URL: f"{pool.ui_url}/api"}):
        undo = ["optimize", "undo", name, "--by", "ada", "--ledger", pool.ledger_url]
        assert main(undo) == 0
        assert main(undo) == 1
    assert "nothing to undo" in capsys.readouterr().err
    assert loop.gpu_count() == 4
    assert loop.record().state is ProposalState.UNDONE
