"""Proposals from the ledger to deployments and back: proposed, approved, applied, verified."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from pydantic import SecretStr

from benchmarks.saved_work import SavedHistory
from benchmarks.saving_histories import FIRST_DAY, LEARNING_DAYS, History, Work
from blocks.usage_ledger import UsageLedger
from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.proposals import read_proposals
from gpu_core.cli.main import main
from gpu_core.decisions.model.attempts import Provenance
from gpu_core.decisions.optimization.proposals.proposal import ProposalKind
from gpu_core.decisions.optimization.proposals.records import ProposalRecord, ProposalState
from gpu_core.decisions.optimization.proposals.verification import SavingVerdict
from tests.end_to_end.conftest import FLOWS, closed
from tests.support.browser import Page, browser
from tests.support.prefect_stack import ENGINE, Pool
from tests.support.waiting import wait_for

DAY = FIRST_DAY + timedelta(days=LEARNING_DAYS)
ANSWER = ("approve", "ada")
_FIELD = "document.querySelectorAll('[role=dialog] textarea')[%d]"


@dataclass(frozen=True, slots=True)
class Loop:
    """A pool whose ledger holds a history of a deployment in which a change would save money."""

    pool: Pool
    kind: ProposalKind
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

    def asks_for(self, variable: str) -> object:
        """The job variable of the deployment."""
        return self.pool.call("GET", f"/deployments/{self.trained}")["job_variables"][variable]

    def record(self) -> ProposalRecord:
        """The proposal of this kind; the history may show a saving by spot as well."""
        with Ledger.open(self.pool.ledger_url) as ledger:
            (found,) = (
                record
                for record in read_proposals(ledger).values()
                if record.proposal.kind is self.kind
            )
        return found

    def ask(self) -> str:
        """Start the flow that asks about the proposal."""
        name = self.record().proposal.proposal_id
        return self.start("apply_saving", proposal_id=name, dry_run=False)

    def wait_for_question(self, run: str) -> None:
        """Wait until the run that asks is suspended."""
        self.pool.wait_until(run, "Suspended", "Failed")
        wait_for(lambda: closed(self.pool, run, 1), "a suspended run holds nothing")

    def next_run(self) -> str:
        """A run of the deployment, to its end."""
        run = self.pool.submit(self.trained, "next")
        self.complete(run)
        wait_for(lambda: closed(self.pool, run, 1), "its attempt is closed")
        return run

    def is_undone(self) -> bool:
        """Undo the proposal; is it the first time?"""
        name = self.record().proposal.proposal_id
        with temporary_settings({PREFECT_API_URL: f"{self.pool.ui_url}/api"}):
            undo = ["optimize", "undo", name, "--by", "ada", "--ledger", self.pool.ledger_url]
            return main(undo) == 0

    def add_runs(
        self,
        work: Work,
        first: datetime,
        days: int,
        seed: int,
        history: type[History] = History,
    ) -> None:
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
                for run, attempts in history(seed).days(work, first.date(), days)
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


def saving(deployment: str, interval_s: float) -> Work:
    """On spot, with a checkpoint after so much work; an hour is far too long."""
    return replace(
        usual(deployment),
        runs_per_weekday=6,
        hours=3.0,
        gpu_count=1,
        capacity_type="spot",
        price_micro_usd=1_200_000,
        per_hour=0.4,
        checkpoint_s=interval_s,
        stall_s=10.0,
    )


def loop_on(pool: Pool, kind: ProposalKind, variables: dict[str, object]) -> Loop:
    """A deployment without a history."""
    trained = pool.deploy(f"{FLOWS}:do_nothing", **variables)
    found = pool.call("GET", f"/deployments/{trained}")
    return Loop(pool, kind, trained, f"do_nothing/{found['name']}")


def loops_on(pool: Pool, variables: dict[str, object]) -> tuple[Loop, Loop]:
    """Two deployments with histories, and the block with the address of the pool's ledger."""
    with temporary_settings({PREFECT_API_URL: f"{pool.ui_url}/api"}):
        UsageLedger(url=SecretStr(pool.ledger_url)).save(pool.name)
    counted = loop_on(pool, ProposalKind.GPU_COUNT, {"gpu_count": 4, **variables})
    saved = loop_on(
        pool, ProposalKind.CHECKPOINT_INTERVAL, {"checkpoint_interval": "1h", **variables}
    )
    begins = datetime(FIRST_DAY.year, FIRST_DAY.month, FIRST_DAY.day, tzinfo=UTC)
    counted.add_runs(usual(counted.name), begins, LEARNING_DAYS, seed=10)
    counted.add_runs(halved(usual(counted.name)), begins, LEARNING_DAYS, seed=20)
    saved.add_runs(saving(saved.name, 3600.0), begins, LEARNING_DAYS, 40, SavedHistory)
    return counted, saved


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
def test_proposals_are_approved_in_the_ui_applied_after_a_restart_seen_verified_and_undone(
    server, pool, journal, tmp_path: Path, capsys
):
    counted, saved = loops_on(pool, journal.variables())
    pool.start_worker()
    counted.complete(counted.start("propose_savings", day=DAY.isoformat(), with_generated=True))
    assert counted.record().state is saved.record().state is ProposalState.PROPOSED
    assert counted.record().proposal.job_variables == {"gpu_count": 2}
    interval_s = saved.record().proposal.job_variables["checkpoint_interval"]

    runs = [counted.ask(), saved.ask()]
    for loop, run in zip((counted, saved), runs, strict=True):
        loop.wait_for_question(run)
    pool.stop_worker()
    approve_in_ui(pool, runs[0], tmp_path / "profile")
    # The second answer is what the same page sends.
    answer = {"run_input": {"decision": "approve", "name": "ada"}}
    pool.call("POST", f"/flow_runs/{runs[1]}/resume", answer)
    assert counted.asks_for("gpu_count") == 4
    server.restart()
    with server.client() as http:
        # On a busy machine its first answers after a restart are errors of its database.
        wait_for(lambda: http.get(f"/work_pools/{pool.name}").is_success, "the server answers")
    pool.start_worker()
    for loop, run in zip((counted, saved), runs, strict=True):
        loop.complete(run)
        record = loop.record()
        assert (record.state, record.decided_by) == (ProposalState.APPLIED, "ada")
    assert counted.asks_for("gpu_count") == 2
    assert saved.asks_for("checkpoint_interval") == interval_s

    assert pool.attempts(counted.next_run())[0].gpu_count == 2
    seen = saved.next_run()
    (began,) = (entry for entry in journal.entries("begin") if entry["run"] == seen)
    assert began["checkpoint_interval_s"] == interval_s

    applied_at = saved.record().applied_at
    assert applied_at is not None
    tomorrow, later = (applied_at + timedelta(days=days) for days in (1, 15))
    counted.add_runs(halved(usual(counted.name)), tomorrow, days=10, seed=30)
    saved.add_runs(saving(saved.name, float(interval_s)), tomorrow, 10, 50, SavedHistory)
    counted.complete(counted.start("verify_savings", now=later.isoformat()))
    for loop in (counted, saved):
        verification = loop.record().verification
        assert verification is not None
        # The tiny run of this test is among the runs that are measured.
        assert verification.verdict in (SavingVerdict.AS_PREDICTED, SavingVerdict.BETTER)

    for loop in (counted, saved):
        assert loop.is_undone()
        assert not loop.is_undone()
        assert "no changes to revert" in capsys.readouterr().err
        assert loop.record().state is ProposalState.UNDONE
    assert (counted.asks_for("gpu_count"), saved.asks_for("checkpoint_interval")) == (4, "1h")
