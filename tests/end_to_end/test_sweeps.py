"""A sweep by dollars: compared at its first rung, one trial promoted, one parked and kept later."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from mlflow import MlflowClient
from prefect.settings import PREFECT_API_URL, temporary_settings
from pydantic import SecretStr

from blocks.usage_ledger import UsageLedger
from gpu_core.decisions.model.attempts import EndReason
from tests.end_to_end.conftest import FLOWS, POLICY
from tests.support.prefect_stack import ENGINE, Pool
from tests.support.waiting import wait_for

CHEAP = POLICY.replace("on-demand: 3.6", "on-demand: 0.36")
# The minute until the next poll and 20 s of grace cost $150: over the first rung of $100, not over
# the second of $200. So a change of the price stops the trials, and not the pace of this machine.
DEAR = POLICY.replace("on-demand: 3.6", "on-demand: 6750")
WORSE, BETTER = 0.25, 0.75


@dataclass(frozen=True, slots=True)
class SweepStory:
    """A pool with a deployment of trials, and one of the sweep."""

    pool: Pool
    folder: Path
    trained: str
    sweep: str

    def one_pass(self, **change: object) -> None:
        """Run a pass to its end."""
        found = self.pool.call("GET", f"/deployments/{self.trained}")
        parameters = {
            "name": "skills",
            "deployment": f"train_in_a_sweep/{found['name']}",
            "metric": "accuracy",
            "budget_usd": 1000,
            "first_rung_usd": 100,
            "grid": {"folder": [str(self.folder)], "skill": [WORSE, BETTER]},
            "rungs": 2,
            "reduction": 2,
            "every_s": 100_000,
        }
        run = self.pool.submit(self.sweep, "pass", parameters | change)
        self.pool.wait_until(run, "Completed", "Failed", "Crashed")
        assert self.pool.state(run) == "Completed", self.pool.logs(run)

    def runs(self, tag: str) -> list[dict]:
        """The flow runs with this tag."""
        wanted = {"flow_runs": {"tags": {"all_": [tag]}}}
        return self.pool.call("POST", "/flow_runs/filter", wanted)

    def trials(self) -> dict[str, str]:
        """The ids of the trials that have started, by name."""
        return {run["name"]: run["id"] for run in self.runs("gpu-sweep:skills")}

    def passes(self) -> list[str]:
        """The states of its passes."""
        return sorted(run["state_name"] for run in self.runs("gpu-sweep-pass:skills"))

    def saves(self, run: str, skill: float, attempt: int) -> None:
        """Wait until this attempt of a trial works, and has saved."""
        began = self.folder / f"began-{skill}-{attempt}"
        wait_for(began.exists, lambda: f"{began.name}: {self.pool.logs(run)}")
        wait_for(lambda: self.pool.attempts(run)[-1].checkpoint, "it has saved")

    def is_parked(self, run: str) -> bool:
        """Has its budget stopped its first attempt, and has Prefect it so?"""
        (attempt,) = self.pool.attempts(run)
        return attempt.end_reason is EndReason.BUDGET_SPENT and self.pool.state(run) == "Failed"

    def page(self) -> str:
        """The newest page of the sweep."""
        body = {"artifacts": {"key": {"any_": ["gpu-sweep-skills"]}}, "sort": "CREATED_DESC"}
        return str(self.pool.call("POST", "/artifacts/filter", body)[0]["data"])


@pytest.fixture
def story(new_pool, tmp_path: Path) -> SweepStory:
    """MLflow's database is there before several runs would make it at once."""
    tracking_uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    MlflowClient(tracking_uri).search_experiments()
    pool = new_pool(CHEAP)
    pool.environment["PREFECT_INTEGRATIONS_GPU_MLFLOW_TRACKING_URI"] = tracking_uri
    with temporary_settings({PREFECT_API_URL: f"{pool.ui_url}/api"}):
        UsageLedger(url=SecretStr(pool.ledger_url)).save(pool.name)
    trained = pool.deploy(f"{FLOWS}:train_in_a_sweep", **ENGINE)
    sweep = pool.deploy("flows/run_sweep.py:run_sweep", gpu_count=0, **ENGINE)
    return SweepStory(pool, tmp_path, trained, sweep)


def test_the_better_trial_resumes_and_the_other_is_parked_until_it_is_kept(
    story,
):
    pool = story.pool
    pool.start_worker()
    story.one_pass()
    assert list(story.trials()) == ["skills-1"]  # no other, until it has saved
    worse = story.trials()["skills-1"]
    story.saves(worse, WORSE, 1)
    story.one_pass()
    better = story.trials()["skills-2"]
    story.saves(better, BETTER, 1)
    assert story.passes() == ["Cancelled", "Completed", "Completed", "Scheduled"]

    pool.policy_path.write_text(DEAR)
    for trial in (worse, better):
        wait_for(partial(story.is_parked, trial), "both trials are stopped")
    pool.policy_path.write_text(CHEAP)
    story.one_pass()
    story.saves(better, BETTER, 2)
    assert int((story.folder / f"began-{BETTER}-2").read_text()) > 0
    assert story.is_parked(worse)

    (story.folder / f"release-{BETTER}").touch()
    pool.wait_until(better, "Completed", "Failed", "Crashed")
    story.one_pass()
    page = story.page()
    assert "Trial 2 is leading with accuracy 0.75 at $200.00" in page
    assert "best, completed" in page
    assert "parked |" in page
    assert "Parked trials: 1 of 2" in page
    assert [pool.state(worse), pool.state(better)] == ["Failed", "Completed"]
    assert set(story.passes()) == {"Cancelled", "Completed"}  # no other pass follows

    story.one_pass(keep=[1])
    story.saves(worse, WORSE, 2)
    assert int((story.folder / f"began-{WORSE}-2").read_text()) > 0
    (story.folder / f"release-{WORSE}").touch()
    pool.wait_until(worse, "Completed", "Failed", "Crashed")
    assert pool.state(worse) == "Completed"
