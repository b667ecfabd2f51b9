"""The nightly report, run as people run it: a real server, a real ledger, a real MLflow."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from prefect.artifacts import Artifact
from pydantic import SecretStr

from blocks.mlflow_tracking import MLflowTracking
from blocks.usage_ledger import UsageLedger
from flows.report_cost import report_cost
from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.proposals import append_records
from gpu_core.decisions.costs.anomalies.detection.judgment import ComparisonRule
from gpu_core.decisions.costs.anomalies.detection.planned import PlannedActivity
from gpu_core.decisions.costs.capacity.capacity_intervals import CapacityChanges
from gpu_core.decisions.costs.reports.demo_history import ANOMALY_NAME, generated_history
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.markdown import escaped
from gpu_core.decisions.optimization.proposals.records import (
    ProposalRecord,
    applied,
    decided,
    proposed,
    verified,
)
from gpu_core.decisions.optimization.proposals.target import Before, Target
from gpu_core.decisions.optimization.proposals.verification import SavingVerdict, Verification
from gpu_core.testing.builders.attempts import NOON, admit, at, make_attempt, make_run
from tests.gpu_core.adapters.ledger.test_capacity import make_interval
from tests.gpu_core.decisions.optimization.proposals.test_propose import found_beside_spot
from tests.support.mlflow_databases import new_mlflow_database

DAY = NOON.date()
PROPOSED = found_beside_spot().proposals
UNCHANGED = Target(
    deployment_id="d-1", work_pool=None, work_queue=None, entrypoint=None, job_variables={}
)


@pytest.fixture
def tracking_uri(tmp_path: Path) -> str:
    """A real MLflow on SQLite."""
    return new_mlflow_database(tmp_path)


@pytest.fixture
def ledger(prefect_server: None, tracking_uri: str, tmp_path: Path) -> Iterator[Ledger]:
    """A ledger that the flow finds by its block, with one run of the test day."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    UsageLedger(url=SecretStr(url)).save("default", overwrite=True)
    MLflowTracking(tracking_uri=tracking_uri).save("default", overwrite=True)
    with Ledger.open(url) as opened:
        ended = make_attempt(released_at=at(2), end_reason=EndReason.COMPLETED)
        admit(opened, ended, make_run(final_state="Completed"))
        yield opened


def page(key: str = "gpu-cost-report") -> str:
    """The newest report as people see it."""
    return _data(key)


def rows(key: str = "gpu-cost-by-team") -> list[dict[str, str]]:
    """The newest table as people see it."""
    found: list[dict[str, str]] = json.loads(_data(key))
    return found


def _data(key: str) -> str:
    artifact = Artifact.get(key)
    assert artifact is not None
    return str(artifact.data)


def logged(tracking_uri: str) -> list[Run]:
    """All runs in MLflow."""
    client = MlflowClient(tracking_uri)
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    return list(client.search_runs(ids))


def test_a_past_day_is_reported_in_prefect_and_logged_to_mlflow(
    ledger: Ledger, tracking_uri: str
) -> None:
    report_cost(DAY)
    assert page().startswith(f"# GPU cost on {DAY}\n\n**$2.00 for 2.00 GPU-hours in 1 run")
    assert [(row["team"], row["cost"]) for row in rows()] == [("vision", "$2.00")]
    assert page("gpu-run-durations").startswith("# Run time and lateness by deployment")
    (run,) = logged(tracking_uri)
    assert run.data.metrics["cost/total_usd"] == 2.0
    assert run.data.tags["cost.status"] == "final"


def test_budgets_and_savings_are_reported_by_the_policy(ledger: Ledger, tmp_path: Path) -> None:
    """The run cost $2 of $40; a machine on spot at $1 for 12 hours costs $2 on demand."""
    machine = make_interval(
        capacity_type="spot", gpus=1, micro_usd_per_hour=1_000_000, until=at(12), seen_at=at(12)
    )
    ledger.write_capacity(CapacityChanges((), (machine,)), [], at(0))
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\nprices: {a100-80gb: {on-demand: 2}}\n"
        "budgets: [{name: vision, scope: team, of: vision, period: month, usd: 40}]\n"
    )
    report_cost(DAY, policy=policy)
    assert "| vision | $2.00 | $15.50 | $40.00 | 2026-04-01 |" in page()
    assert "| saved by spot | -$12.00 |" in page()


def test_proposals_are_on_the_report_as_they_were_on_its_day(ledger: Ledger) -> None:
    """A measured loss is in the score; what came later is not on the page of an earlier day."""
    asked = PROPOSED[0], Before.of(UNCHANGED, PROPOSED[0])
    record = ProposalRecord(proposal=asked[0], before=asked[1], proposed_at=at(1))
    lost = Verification(
        verdict=SavingVerdict.LOSS,
        runs=9,
        saving=-0.1,
        cost_per_unit_micro_usd=3_300_000,
        saved_micro_usd=-5_000_000,
    )
    yes = decided(record, is_approved=True, by="ada", flow_run_id=None, now=at(2))
    append_records(ledger, proposed(*asked, at(1)), yes, applied(record, at(3)))
    append_records(ledger, verified(record, lost, "lost", at(30)))
    report_cost(DAY - timedelta(days=1))
    assert "Proposals:" not in page()
    report_cost(DAY)
    assert "## Proposals: 0 open, 1 applied" in page()
    report_cost(DAY + timedelta(days=1))
    assert "## Proposals: 0 open, 1 verified\n\n1 applied, 1 measured: $5.00 lost" in page()


def test_proposals_from_generated_runs_are_on_their_own_report(ledger: Ledger) -> None:
    invented = replace(PROPOSED[0], has_generated=True)
    append_records(ledger, proposed(invented, Before.of(UNCHANGED, invented), at(1)))
    report_cost(DAY)
    assert "Proposals:" not in page()
    report_cost(DAY, with_generated=True)
    assert "## Proposals: 1 open" in page("gpu-cost-report-with-generated")


def test_a_record_of_a_proposal_that_cannot_be_read_does_not_stop_the_report(
    ledger: Ledger,
) -> None:
    good = proposed(PROPOSED[0], Before.of(UNCHANGED, PROPOSED[0]), at(1))
    append_records(ledger, replace(good, numbers={"proposal_id": "spot-1", "document": "{"}))
    report_cost(DAY)
    assert page().startswith(f"# GPU cost on {DAY}\n\n**$2.00 for 2.00 GPU-hours in 1 run")
    assert "## Proposals\n\nproposal cannot be read from its record" in page()


def test_reporting_twice_says_the_same_and_logs_nothing_twice(
    ledger: Ledger, tracking_uri: str
) -> None:
    report_cost(DAY)
    first_page, first_rows, first_runs = page(), rows(), logged(tracking_uri)
    report_cost(DAY)
    assert (page(), rows()) == (first_page, first_rows)
    assert [r.to_dictionary() for r in logged(tracking_uri)] == [
        r.to_dictionary() for r in first_runs
    ]


def test_without_a_day_it_reports_on_yesterday(ledger: Ledger) -> None:
    before = datetime.now(UTC).date()
    report_cost()
    after = datetime.now(UTC).date()
    allowed = {f"# GPU cost on {day - timedelta(days=1)}" for day in (before, after)}
    assert page().partition("\n")[0] in allowed


def test_generated_runs_are_reported_apart_and_never_logged_to_mlflow(
    ledger: Ledger, tracking_uri: str
) -> None:
    ledger.import_records(generated_history(20, DAY))
    report_cost(DAY)
    measured = page()
    report_cost(DAY, with_generated=True)
    assert page() == measured
    assert "enerated" not in measured
    generated = page("gpu-cost-report-with-generated")
    assert "**Partly generated data.**" in generated
    assert "**Generated history.**" in generated
    assert escaped(ANOMALY_NAME) in generated
    assert all(run.data.tags["cost.provenance"] == "measured" for run in logged(tracking_uri))


def test_a_run_over_midnight_is_split_between_days_and_logged_whole(
    ledger: Ledger, tracking_uri: str
) -> None:
    hours = {"admitted_at": at(6), "released_at": at(20)}
    admit(ledger, make_attempt("over-midnight", **hours, end_reason=EndReason.PREEMPTED))
    report_cost(DAY + timedelta(days=1))
    assert "**$8.00 for 8.00 GPU-hours in 1 run" in page()
    (run,) = [
        r for r in logged(tracking_uri) if r.data.tags["prefect.flow_run_id"] == "over-midnight"
    ]
    assert run.data.metrics["cost/total_usd"] == 14.0
    assert run.data.tags["cost.status"] == "estimated"


def test_a_day_with_nothing_is_reported_as_such(ledger: Ledger) -> None:
    report_cost(date(2020, 1, 1))
    assert "**No GPU usage found.**" in page()


def test_a_pools_own_ledger_is_read_and_not_the_one_that_pools_share(
    ledger: Ledger, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/vision.db"
    UsageLedger(url=SecretStr(url)).save("vision", overwrite=True)
    with pytest.raises(InvalidInput, match="is not a file"):
        report_cost(DAY, pool="vision")
    Ledger.open(url).close()
    report_cost(DAY, pool="vision")
    assert "**No GPU usage found.**" in page()
    report_cost(DAY, pool="speech")
    assert "**$2.00 for 2.00 GPU-hours in 1 run" in page()


def test_a_pool_without_a_ledger_is_refused_with_the_remedy(prefect_server: None) -> None:
    for name in ("default", "vision"):
        with suppress(ValueError):
            UsageLedger.delete(name)
    with pytest.raises(InvalidInput) as refused:
        report_cost(DAY, pool="vision")
    assert "No block found named gpu-usage-ledger/vision or gpu-usage-ledger/default" in str(
        refused.value
    )
    assert "prefect-gpu setup --pool vision --ledger-url" in str(refused.value)


def test_without_mlflow_the_day_is_reported_all_the_same(
    ledger: Ledger, tracking_uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    MLflowTracking.delete("default")
    report_cost(DAY)
    assert "**$2.00 for 2.00 GPU-hours in 1 run" in page()
    assert logged(tracking_uri) == []
    assert "because no block named gpu-mlflow-tracking/default" in caplog.text


def test_the_day_is_judged_by_its_weekday_and_planned_days_are_not(ledger: Ledger) -> None:
    ledger.import_records(generated_history(42, DAY))
    key = "gpu-cost-report-with-generated"
    report_cost(DAY, with_generated=True)
    assert "Daily cost spike: expected" in page(key)
    report_cost(DAY - timedelta(days=1), with_generated=True)
    assert "No anomalies detected." in page(key)
    report_cost(DAY - timedelta(days=1), with_generated=True, rule=ComparisonRule.ROLLING_MEAN)
    assert "7-day mean" in page(key)
    planned = [PlannedActivity(name="sweep", first_day=DAY, last_day=DAY)]
    report_cost(DAY, with_generated=True, planned=planned)
    assert "the day was not evaluated because of planned activity" in page(key)
