"""A deployment is changed only after a person's answer in time, and only if it is as it was.

The flow runs are of a real Prefect server. `carry_on` does the part of a worker: it runs the flow
from its beginning after each resumption.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import Pause
from prefect.flow_engine import run_flow
from prefect.states import Crashed, Scheduled
from prefect.utilities.asyncutils import run_coro_as_sync
from pydantic import SecretStr

from blocks.usage_ledger import UsageLedger
from flows import apply_saving as apply_module
from flows.apply_saving import apply_saving
from flows.verify_savings import verify_savings
from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.proposals import append_records, read_proposal
from gpu_core.adapters.prefect.deployments import read_target
from gpu_core.cli.main import main
from gpu_core.decisions.optimization.proposals.proposal import Proposal
from gpu_core.decisions.optimization.proposals.records import (
    ProposalRecord,
    ProposalState,
    proposed,
)
from gpu_core.decisions.optimization.proposals.target import Before, Target
from tests.gpu_core.decisions.optimization.proposals.test_propose import found_beside_spot
from tests.support.waiting import wait_for

APPROVE = {"decision": "approve", "name": "ada"}
DECLINE = {"decision": "decline", "name": "bob"}
BEFORE = {"gpu_count": 4, "env": {"TOKEN": "secret"}}
AFTER = BEFORE | {"capacity_type": "spot"}
FOUND = found_beside_spot().proposals[0]


@dataclass(frozen=True, slots=True)
class Case:
    """A deployment, a proposal of spot for it in the ledger, and the flow that asks."""

    client: SyncPrefectClient
    ledger: Ledger
    url: str
    proposal: Proposal
    trained: UUID
    asking: UUID

    def start(self, **parameters: object) -> UUID:
        """A run of the flow, up to its suspension or its end."""
        named = {"proposal_id": self.proposal.proposal_id, "dry_run": False} | parameters
        run = self.client.create_flow_run_from_deployment(self.asking, parameters=named)
        self.carry_on(run.id)
        return run.id

    def carry_on(self, run: UUID) -> None:
        """Run the flow, as a worker does with a run that is due."""
        found = self.run(run)
        try:
            run_flow(apply_saving, flow_run=found, parameters=found.parameters, return_type="state")
        except Pause:
            return

    def answer(self, run: UUID, given: dict[str, str] | None) -> None:
        """Resume the run with this input, as Prefect's UI does, and run it to its end."""
        self.resume(run, given)
        self.carry_on(run)

    def resume(self, run: UUID, given: dict[str, str] | None) -> dict[str, Any]:
        """Resume the run with this input; the server's answer."""
        address = f"/flow_runs/{run}/resume"
        answered: dict[str, Any] = self.client.request(
            "POST", address, json={"run_input": given}
        ).json()
        return answered

    def run(self, run: UUID) -> FlowRun:
        """The run as Prefect has it."""
        return self.client.read_flow_run(run)

    def state(self, run: UUID) -> str:
        """The name and the message of its state."""
        state = self.run(run).state
        assert state is not None
        return f"{state.name}: {state.message or ''}"

    @property
    def variables(self) -> dict[str, Any]:
        """The deployment's job variables."""
        return self.client.read_deployment(self.trained).job_variables

    def edit(self, **variables: object) -> None:
        """Change the deployment's job variables, as a person does."""
        body = {"job_variables": variables}
        self.client.request("PATCH", f"/deployments/{self.trained}", json=body)

    @property
    def record(self) -> ProposalRecord:
        """The proposal in the ledger."""
        return read_proposal(self.ledger, self.proposal.proposal_id)

    def undo(self) -> int:
        """`prefect-gpu optimize undo`; its exit code."""
        words = ["optimize", "undo", self.proposal.proposal_id, "--by", "ada"]
        return main([*words, "--ledger", self.url])


def deploy(client: SyncPrefectClient, flow: str, **variables: object) -> tuple[UUID, str]:
    """A deployment of a flow of this name; its id and its name."""
    name = f"d-{uuid4().hex[:8]}"
    flow_id = client.request("POST", "/flows/", json={"name": flow}).json()["id"]
    body = {"name": name, "flow_id": flow_id, "job_variables": variables}
    body |= {"entrypoint": "flows/train.py:train"}
    return UUID(client.request("POST", "/deployments/", json=body).json()["id"]), f"{flow}/{name}"


@pytest.fixture
def case(prefect_server: None, tmp_path: Path) -> Iterator[Case]:
    """One proposal without an answer."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    UsageLedger(url=SecretStr(url)).save("default", overwrite=True)
    with get_client(sync_client=True) as client, Ledger.open(url) as ledger:
        trained, name = deploy(client, "train", **BEFORE)
        asking, _ = deploy(client, "apply-saving")
        proposal = replace(FOUND, deployment=name)
        made = Case(client, ledger, url, proposal, trained, asking)
        propose(made)
        yield made


def propose(case: Case, days: int = 0) -> None:
    """Record the proposal for the deployment as it is, so many days later."""
    now = datetime.now(UTC) + timedelta(days=days)
    before = Before.of(target_of(case), case.proposal)
    append_records(case.ledger, proposed(case.proposal, before, now))


def target_of(case: Case) -> Target:
    """The deployment as it is."""

    async def reading() -> Target | None:
        async with get_client() as client:
            return await read_target(client, case.proposal.deployment)

    found: Target | None = run_coro_as_sync(reading())
    assert found is not None
    return found


def test_an_answer_changes_the_deployment_and_undo_gives_back_what_was_there(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    run = case.start()
    assert case.state(run).startswith("Suspended")
    assert case.variables == BEFORE
    case.answer(run, APPROVE)
    assert case.state(run).startswith("Completed")
    assert case.variables == AFTER
    record = case.record
    assert (record.state, record.decided_by) == (ProposalState.APPLIED, "ada")
    assert case.undo() == 0
    assert case.variables == BEFORE
    assert case.undo() == 1
    assert "no changes to revert" in capsys.readouterr().err
    assert case.record.state is ProposalState.UNDONE
    later = case.start()
    assert case.state(later).startswith("Completed")
    assert case.variables == BEFORE


def test_undo_removes_a_variable_that_was_not_set(case: Case) -> None:
    case.edit()
    propose(case, days=1)
    case.answer(case.start(), APPROVE)
    assert case.variables == {"capacity_type": "spot"}
    assert case.undo() == 0
    assert case.variables == {}


def test_an_expiry_of_no_time_is_refused(case: Case) -> None:
    run = case.start(expires_s=0)
    assert case.state(run).startswith("Failed")
    assert "greater than 0" in case.state(run)


def test_a_dry_run_asks_and_changes_nothing(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    run = case.start(dry_run=True)
    assert case.state(run).startswith("Completed")
    assert "would get capacity_type: spot" in caplog.text
    case.edit(gpu_count=8)
    case.start(dry_run=True)
    assert "nothing would be changed. The job variables, entrypoint" in caplog.text
    assert case.record.state is ProposalState.PROPOSED


def test_a_declined_proposal_stays_declined(case: Case) -> None:
    case.answer(case.start(), DECLINE)
    again = case.start()
    assert case.state(again).startswith("Completed")
    assert (case.variables, case.record.state) == (BEFORE, ProposalState.DECLINED)


def test_a_resumption_without_an_answer_is_refused(case: Case) -> None:
    run = case.start()
    blank, other_word = APPROVE | {"name": "  "}, APPROVE | {"decision": "yes"}
    for given in (None, {}, {"decision": "approve"}, {"name": "ada"}, blank, other_word):
        assert case.resume(run, given)["status"] == "REJECT", given
    assert case.state(run).startswith("Suspended")


@pytest.mark.parametrize(
    "by_hand",
    [
        pytest.param(Scheduled(), id="scheduled by hand"),
        pytest.param(Scheduled(name="Resuming"), id="resumed by hand, without input"),
        pytest.param(Crashed(message="the machine is gone"), id="crashed, and retried"),
    ],
)
def test_a_run_that_goes_on_without_an_answer_approves_nothing(case: Case, by_hand: Any) -> None:
    run = case.start()
    case.client.set_flow_run_state(run, by_hand, force=True)
    if by_hand.is_crashed():
        case.client.set_flow_run_state(run, Scheduled(name="AwaitingRetry"), force=True)
    case.carry_on(run)
    assert case.state(run).startswith("Failed")
    assert "was not approved. The flow run was resumed without a response." in case.state(run)
    assert (case.variables, case.record.state) == (BEFORE, ProposalState.PROPOSED)


def test_an_answer_after_the_expiry_approves_nothing(case: Case) -> None:
    run = case.start(expires_s=1)
    state = case.run(run).state
    assert state is not None
    expires_at = state.state_details.pause_timeout
    assert expires_at is not None
    wait_for(lambda: datetime.now(UTC) > expires_at, "the question expires")
    # Prefect refuses it, or has failed the run already.
    assert case.resume(run, APPROVE)["status"] != "ACCEPT"
    wait_for(lambda: case.state(run).startswith("Failed"), "Prefect fails the run")
    case.client.set_flow_run_state(run, Scheduled(name="AwaitingRetry"), force=True)
    case.carry_on(run)
    assert "was not approved" in case.state(run)
    assert (case.variables, case.record.state) == (BEFORE, ProposalState.PROPOSED)


def test_of_two_people_the_first_answer_counts(case: Case) -> None:
    ada, bob = case.start(), case.start()
    case.answer(bob, DECLINE)
    case.answer(ada, APPROVE)
    record = case.record
    assert (record.state, record.decided_by) == (ProposalState.DECLINED, "bob")
    assert case.variables == BEFORE


def test_two_approvals_change_it_once(case: Case) -> None:
    ada, bob = case.start(), case.start()
    case.answer(ada, APPROVE)
    case.edit(**AFTER, team="x")
    case.answer(bob, APPROVE | {"name": "bob"})
    assert case.state(bob).startswith("Completed")
    assert case.record.decided_by == "ada"
    assert case.variables == AFTER | {"team": "x"}


def gone(case: Case) -> None:
    case.client.request("DELETE", f"/deployments/{case.trained}")


def changed(case: Case) -> None:
    case.edit(gpu_count=4, env={"TOKEN": "other"})


def changed_alike(case: Case) -> None:
    case.edit(**AFTER)


@pytest.mark.parametrize(
    ("meanwhile", "said"),
    [
        pytest.param(gone, "no longer exists", id="deleted"),
        pytest.param(changed, "modified since", id="another variable changed"),
        pytest.param(changed_alike, "modified since", id="a person made the same change"),
    ],
)
def test_a_deployment_that_is_not_as_it_was_is_left_as_it_is(
    case: Case, meanwhile: Callable[[Case], None], said: str
) -> None:
    run = case.start()
    meanwhile(case)
    now_has = None if meanwhile is gone else case.variables
    case.answer(run, APPROVE)
    assert case.state(run).startswith("Failed")
    assert said in case.state(run)
    assert case.record.state is ProposalState.NOT_APPLIED
    assert now_has is None or case.variables == now_has


def test_a_changed_deployment_is_asked_about_again(case: Case) -> None:
    run = case.start()
    case.edit(gpu_count=8)
    propose(case, days=1)
    case.answer(run, APPROVE)
    # The answer was about the deployment as it was: the run asks about the new one.
    assert case.state(run).startswith("Suspended")
    assert case.record.is_approved is None
    case.answer(run, APPROVE)
    assert case.variables == {"gpu_count": 8, "capacity_type": "spot"}


def test_a_second_change_waits_until_the_first_one_is_measured(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    case.answer(case.start(), APPROVE)
    change = replace(case.proposal.changes[0], variable="gpu_count", observed="4", proposed=2)
    second = replace(case.proposal, proposal_id="gpu-count-1", changes=(change,))
    later = replace(case, proposal=second)
    propose(later)
    later.start(dry_run=True)
    assert "nothing would be changed." in caplog.text
    run = later.start()
    later.answer(run, APPROVE)
    assert f"{case.proposal.proposal_id} is being measured on this deployment" in later.state(run)
    assert (later.variables, later.record.state) == (AFTER, ProposalState.NOT_APPLIED)


def test_a_server_that_fails_between_approval_and_change_leaves_it_to_the_next_try(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = case.start()
    with monkeypatch.context() as patched:
        patched.setattr(apply_module, "write_job_variables", unreachable)
        case.answer(run, APPROVE)
    assert case.state(run).startswith("Failed")
    assert (case.variables, case.record.state) == (BEFORE, ProposalState.APPROVED)
    again = case.start()
    assert case.state(again).startswith("Completed")
    assert (case.variables, case.record.state) == (AFTER, ProposalState.APPLIED)


async def unreachable(*_: object) -> None:
    raise httpx.ConnectError("the server restarts")


def dies(*_: object) -> None:
    raise OSError("the ledger is gone")


@pytest.mark.parametrize("is_nightly", [False, True], ids=["again", "the nightly verification"])
def test_a_flow_that_dies_after_the_change_is_finished(
    case: Case, monkeypatch: pytest.MonkeyPatch, is_nightly: bool
) -> None:
    run = case.start()
    with monkeypatch.context() as patched:
        patched.setattr(apply_module, "applied", dies)
        case.answer(run, APPROVE)
    assert (case.variables, case.record.applied_at) == (AFTER, None)
    if is_nightly:
        verify_savings()
    else:
        assert case.state(case.start()).startswith("Completed")
    assert case.record.state is ProposalState.APPLIED


def test_undo_leaves_what_someone_else_changed(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    case.answer(case.start(), APPROVE)
    case.edit(gpu_count=4, capacity_type="reserved")
    assert case.undo() == 1
    assert (
        "No changes were made, because capacity_type has been modified" in capsys.readouterr().err
    )
    assert case.variables == {"gpu_count": 4, "capacity_type": "reserved"}
    assert case.record.state is ProposalState.APPLIED
