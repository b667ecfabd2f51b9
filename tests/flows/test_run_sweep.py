"""A sweep on a real Prefect server, where the tests do the part of a worker: they stop the trials.

Each call of the flow is a pass. `Trials.stop` writes what a worker writes at the end of a budget.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import mlflow
import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from prefect.artifacts import Artifact
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.states import Cancelled, Failed
from pydantic import SecretStr

from blocks.usage_ledger import UsageLedger
from flows import run_sweep as flow_module
from flows.run_sweep import run_sweep
from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.prefect import sweeps
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.optimization.sweeps.request import sweep_request
from gpu_core.decisions.optimization.sweeps.trials import SweepTrial
from gpu_core.testing.builders.attempts import make_attempt, make_run
from tests.support.mlflow_databases import new_mlflow_database

SKILLS = (1, 2, 3)
DOLLAR = 1_000_000


@dataclass(frozen=True, slots=True)
class Trials:
    """The runs of one sweep over a deployment of the test's own."""

    client: SyncPrefectClient
    name: str
    deployment_id: UUID
    ledger_url: str

    def one_pass(self, **changes: Any) -> None:
        """Run a pass of the sweep."""
        asked = {
            "name": self.name,
            "deployment": f"train/{self.name}",
            "metric": "accuracy",
            "budget_usd": 10,
            "first_rung_usd": 1,
            "grid": {"skill": list(SKILLS)},
            "rungs": 2,
        }
        run_sweep(**asked | changes)

    def runs(self) -> dict[int, FlowRun]:
        """Those that have started, by skill."""
        found = [
            run for run in self.client.read_flow_runs() if run.deployment_id == self.deployment_id
        ]
        by_skill = {run.parameters["skill"]: run for run in found}
        assert len(by_skill) == len(found), "a trial has started twice"
        return by_skill

    def states(self) -> dict[int, tuple[str, float]]:
        """State and budget of each, by skill."""
        return {
            skill: (run.state_name or "", (run.job_variables or {})["budget_usd"])
            for skill, run in sorted(self.runs().items())
        }

    def stop(self, skill: int, **changes: Any) -> None:
        """The budget of a dollar stops this trial, after it has logged its skill and saved."""
        run_id = str(self.runs()[skill].id)
        began = datetime.now(UTC) - timedelta(hours=2)
        asked = began + timedelta(minutes=59)
        attempt = make_attempt(
            run_id,
            **{
                "admitted_at": began,
                "drain_requested_at": asked,
                "drain_deadline_at": asked + timedelta(seconds=30),
                "released_at": asked + timedelta(seconds=10),
                "end_reason": EndReason.BUDGET_SPENT,
                "checkpoint": "newest",
                **changes,
            },
        )
        with Ledger.open(self.ledger_url) as ledger:
            ledger.import_records([(make_run(run_id, pool="gpus"), [attempt])])
        self.client.set_flow_run_state(UUID(run_id), Failed(message="Budget spent"), force=True)
        tracking = MlflowClient()
        tracked = tracking.create_run("0", tags={"prefect.flow_run_id": run_id})
        at = int((began + timedelta(minutes=30)).timestamp() * 1000)
        tracking.log_metric(tracked.info.run_id, "accuracy", skill / 10, timestamp=at)


@pytest.fixture(scope="module")
def tracking_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One database for the module."""
    return new_mlflow_database(tmp_path_factory.mktemp("mlflow"))


@pytest.fixture
def trials(tracking_uri: str, tmp_path: Path, prefect_server: None) -> Iterator[Trials]:
    """A deployment without a pool, whose ledger the default block names."""
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(tracking_uri)
    url = f"sqlite:///{tmp_path}/ledger.db"
    UsageLedger(url=SecretStr(url)).save("default", overwrite=True)
    Ledger.open(url).close()
    name = f"sweep-{uuid4().hex[:8]}"
    with get_client(sync_client=True) as client:
        flow_id = client.create_flow_from_name("train")
        deployment_id = client.create_deployment(flow_id=flow_id, name=name)
        yield Trials(client, name, deployment_id, url)
    mlflow.set_tracking_uri(before)


def page(trials: Trials) -> str:
    """The newest page of the sweep."""
    artifact = Artifact.get(f"gpu-sweep-{trials.name}")
    assert artifact is not None
    return str(artifact.data)


def stop_all(trials: Trials) -> None:
    """Three trials at the first rung."""
    trials.one_pass()
    trials.stop(1)
    trials.one_pass()
    trials.stop(2)
    trials.stop(3)


def test_one_trial_starts_until_it_has_saved_and_none_starts_twice(trials: Trials) -> None:
    trials.one_pass()
    trials.one_pass()
    assert trials.states() == {1: ("Scheduled", 1.0)}
    trials.stop(1)
    trials.one_pass()
    trials.one_pass()
    want = {1: ("Failed", 1.0), 2: ("Scheduled", 1.0), 3: ("Scheduled", 1.0)}
    assert trials.states() == want


def test_a_pass_that_dies_is_made_up_for_by_the_next(
    trials: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, schedule = sweeps.start_trial, sweeps._schedule

    async def start_and_die(*given: Any, **named: Any) -> None:
        await start(*given, **named)
        raise OSError("gone after the start")

    async def schedule_and_die(*given: Any) -> bool:
        await schedule(*given)
        raise OSError("gone before it had its dollars")

    monkeypatch.setattr(sweeps, "start_trial", start_and_die)
    with pytest.raises(OSError, match="after the start"):
        trials.one_pass()
    monkeypatch.setattr(sweeps, "start_trial", start)
    trials.one_pass()
    assert len(trials.runs()) == 1
    trials.stop(1)
    trials.one_pass()
    trials.stop(2)
    trials.stop(3)
    monkeypatch.setattr(sweeps, "_schedule", schedule_and_die)
    with pytest.raises(OSError, match="before it had its dollars"):
        trials.one_pass()
    assert trials.states()[3] == ("AwaitingRetry", 1.0)
    assert trials.runs()[3].next_scheduled_start_time > datetime.now(UTC) + timedelta(minutes=5)
    monkeypatch.setattr(sweeps, "_schedule", schedule)
    trials.one_pass()
    want = {1: ("Failed", 1.0), 2: ("Failed", 1.0), 3: ("AwaitingRetry", 3.0)}
    assert trials.states() == want
    assert trials.runs()[3].next_scheduled_start_time < datetime.now(UTC)
    assert "Parked trials: 2 of 3" in page(trials)


def test_a_trial_that_is_cancelled_meanwhile_stays_cancelled(
    trials: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_all(trials)
    schedule = sweeps._schedule

    async def cancel_and_schedule(client: Any, run: FlowRun, state: State[Any]) -> bool:
        trials.client.set_flow_run_state(run.id, Cancelled(message="By Ada"), force=True)
        return await schedule(client, run, state)

    monkeypatch.setattr(sweeps, "_schedule", cancel_and_schedule)
    trials.one_pass()
    assert trials.states()[3] == ("Cancelled", 1.0)


def test_the_trials_are_children_of_one_run_in_mlflow(trials: Trials) -> None:
    stop_all(trials)
    trials.one_pass()
    trials.one_pass()
    tracking = MlflowClient()
    (parent,) = tracking.search_runs(
        ["0"], filter_string=f"attributes.run_name = 'sweep {trials.name}'"
    )
    children = tracking.search_runs(
        ["0"], filter_string=f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"
    )
    trial_ids = {str(run.id) for run in trials.runs().values()}
    assert {child.data.tags["prefect.flow_run_id"] for child in children} == trial_ids
    assert parent.info.status == "RUNNING"
    assert "Parked trials: 2 of 3" in parent.data.tags["mlflow.note.content"]


def test_a_parked_trial_is_resumed_by_hand_up_to_its_next_rung(trials: Trials) -> None:
    stop_all(trials)
    trials.one_pass(keep=[1])
    assert trials.states() == {
        1: ("AwaitingRetry", 3.0), 2: ("Failed", 1.0), 3: ("AwaitingRetry", 3.0),
    }  # fmt: skip


def test_the_budget_of_the_sweep_is_never_exceeded(trials: Trials) -> None:
    trials.one_pass(budget_usd=3)
    trials.stop(1)
    trials.one_pass(budget_usd=3)
    trials.stop(2)
    trials.stop(3)
    trials.one_pass(budget_usd=3)
    assert {state for state, _ in trials.states().values()} == {"Failed"}
    assert "The budget is exhausted" in page(trials)


@pytest.mark.parametrize(
    ("stopped", "changes", "want"),
    [
        pytest.param({"checkpoint": None}, {}, "keeps no checkpoints", id="no checkpoint"),
        pytest.param(
            {"price_micro_usd_per_gpu_hour": None}, {}, "without a price", id="no price"
        ),
        pytest.param(
            {"released_at": None, "drain_requested_at": None, "end_reason": None}, {},
            "nothing stops a trial at its budget", id="a policy that lets trials continue",
        ),
        pytest.param({}, {"metric": "acuracy"}, "Did you mean 'accuracy'", id="another metric"),
        pytest.param({}, {"deployment": "train/nothing"}, "does not exist", id="no deployment"),
        pytest.param({}, {"deployment": "nothing"}, "does not exist", id="no name of one"),
        pytest.param({}, {"grid": {"skill": [2, 3, 4]}}, "has started", id="a trial left out"),
    ],
)  # fmt: skip
def test_what_cannot_go_on_is_said_and_gives_no_dollars(
    trials: Trials, stopped: dict[str, Any], changes: dict[str, Any], want: str
) -> None:
    trials.one_pass()
    trials.stop(1, **stopped)
    with pytest.raises(InvalidInput, match=want):
        trials.one_pass(**changes)
    assert trials.states() == {1: ("Failed", 1.0)}


def test_the_page_says_what_the_deployment_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[str] = []

    async def found(*_: Any) -> flow_module.Sweep:
        return flow_module.Sweep(uuid4(), "", "gpu", {})

    async def refuse(*_: Any) -> None:
        raise InvalidInput("trials", "were rejected by the deployment: no such parameter")

    unstarted = (SweepTrial(number=1, parameters={"skil": 1}),)
    monkeypatch.setattr(flow_module, "read_sweep", found)
    monkeypatch.setattr(flow_module, "read_trials", lambda *_: (unstarted, frozenset(), []))
    monkeypatch.setattr(flow_module, "give_dollars", refuse)
    monkeypatch.setattr(flow_module, "publish_sweep", lambda _, page: pages.append(page))
    asked = sweep_request(
        name="lr", deployment="train/gpu", metric="accuracy", budget_usd=1, first_rung_usd=1,
        trials=[{"skil": 1}], rungs=1,
    )  # fmt: skip
    with pytest.raises(InvalidInput, match="rejected by the deployment"):
        flow_module.one_pass(asked, None, None)
    assert (
        "The sweep was stopped: trials were rejected by the deployment: no such parameter"
        in pages[0]
    )


def test_nothing_is_decided_while_mlflow_is_unavailable(
    trials: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials.one_pass()
    trials.stop(1)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    mlflow.set_tracking_uri("http://127.0.0.1:9")
    with pytest.raises(MlflowException):
        trials.one_pass()
    assert trials.states() == {1: ("Failed", 1.0)}
