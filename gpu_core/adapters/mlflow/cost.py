"""Put a run's cost next to its model's metrics in MLflow, so that experiments compare by cost.

The cost of a flow run stands in one MLflow run and nowhere else: `cost/total_usd` over all runs
then adds up to the bill.
"""

import logging
from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction

from mlflow import MlflowClient
from mlflow.entities import Experiment, LifecycleStage, Run, ViewType
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE, RESOURCE_DOES_NOT_EXIST, ErrorCode
from prefect.utilities.urls import url_for

from gpu_core.adapters.mlflow.experiment import experiment_id
from gpu_core.adapters.mlflow.tags import FLOW_RUN_TAG, PARENT_TAG, TRACKED_RUN_TAG
from gpu_core.decisions.costs.billing.run_bills import RunBill
from gpu_core.decisions.costs.mlflow.cost_ratios import (
    BASELINE_TAG,
    GOAL_TAG,
    QUALITY_TAG,
    improvement_per_usd,
    usd_per_count,
)
from gpu_core.decisions.costs.mlflow.mlflow_views import experiment_tags
from gpu_core.decisions.costs.usage.usage import Usage
from gpu_core.decisions.costs.usage.usage_cost import RunCost
from gpu_core.decisions.model.attempts import RunRecord
from gpu_core.decisions.model.markdown import escaped
from gpu_core.decisions.model.units import MICRO_USD_PER_USD, SECONDS_PER_HOUR
from gpu_core.decisions.telemetry.summary import GpuUse, gpu_use

DEFAULT_EXPERIMENT = "prefect-gpu"

# A run that was deleted for good, and an id that is none.
_NO_SUCH_RUN = {ErrorCode.Name(code) for code in (RESOURCE_DOES_NOT_EXIST, INVALID_PARAMETER_VALUE)}
_log = logging.getLogger("prefect.gpu.mlflow")

_STATUS_TAG = "cost.status"
_CHILDREN_TAG = "cost.children_priced"
_DESCRIPTION_TAG = "mlflow.note.content"
ACCRUED_METRIC = "cost/accrued_usd"
"""The cost of a run so far; logged while it runs, and at its end with the final cost."""

RECONCILED_TAG = "cost.reconciled"
"""`all`: all that the run cost is on providers' bills; `part`: a part of it is."""

_METRIC_PREFIX = "cost/"
_RUNS_PER_PAGE = 200


class CostStatus(StrEnum):
    """The reliability of a logged cost."""

    ESTIMATED = "estimated"
    """The run is not over."""
    FINAL = "final"
    UNPRICED = "unpriced"
    """A part of the run has no price, so that its total is unknown."""
    SUPERSEDED = "superseded"
    """The cost now stands in a newer MLflow run of the same flow run; here it is 0."""


def cost_status(cost: RunCost) -> CostStatus:
    """How far can this cost be relied on?"""
    if cost.total_micro_usd is None:
        return CostStatus.UNPRICED
    is_held = any(attempt.released_at is None for attempt in cost.attempts)
    if is_held or cost.run.final_state is None:
        return CostStatus.ESTIMATED
    return CostStatus.FINAL


def log_run_cost(
    client_or_uri: MlflowClient | str,
    record: RunRecord,
    cost: RunCost,
    *,
    status: CostStatus,
    price_book: str,
    bill: RunBill | None = None,
    children: Usage | None = None,
) -> str:
    """Log the whole cost of a flow run to its own MLflow run; the MLflow run's id.

    That is the one that `tracked_run` made, else the newest one, without a parent, that carries
    the tag `prefect.flow_run_id`; where there is none, one is created in the run's experiment. If
    another one carries a cost already, its cost metrics become 0, so that nothing is counted
    twice. Only what differs from what MLflow already has is written: logging twice changes
    nothing. A finished MLflow run is fine.

    Args:
        client_or_uri: A client, or a tracking URI.
        cost: The cost of the run's whole life.
        status: How far it can be relied on (see `cost_status`).
        price_book: Which prices it was costed with: a version or a hash.
        bill: What providers' bills say of the run; None: nothing.
        children: What the runs that it started used, and they in turn, each once; None: it
            started none. Their sum has names of its own, so that `cost/total_usd` adds up.

    Raises:
        MlflowException: MLflow cannot be reached, or refuses.
    """
    client = MlflowClient(client_or_uri) if isinstance(client_or_uri, str) else client_or_uri
    found = own_runs(client, record.flow_run_id)
    newest = found[0] if found else _create_run(client, record)
    for older in found[1:]:
        _supersede(client, older)
    tags = _tags(record, cost, status, price_book) | _description(newest, record)
    metrics = _metrics(cost)
    if bill is not None:
        tags[RECONCILED_TAG] = "all" if bill.covers(cost) else "part"
        metrics["cost/reconciled_usd"] = bill.charged_micro_usd / MICRO_USD_PER_USD
        metrics["cost/billed_usd"] = bill.billed_micro_usd / MICRO_USD_PER_USD
    metrics |= _with_children(cost.usage, children)
    if children is not None:
        # MLflow keeps a sum that was logged while each of them still had a price.
        tags[_CHILDREN_TAG] = "part" if children.is_unpriced else "all"
    total_usd = metrics.get("cost/total_usd")
    if ACCRUED_METRIC in newest.data.metrics and total_usd is not None:
        metrics[ACCRUED_METRIC] = total_usd
    metrics |= usd_per_count(total_usd, newest.data.metrics)
    metrics |= _improvement(client, newest, total_usd)
    _write(client, newest, metrics, tags)
    _keep_views(client, newest)
    return str(newest.info.run_id)


def all_experiments(client: MlflowClient) -> list[Experiment]:
    """All experiments that are not deleted."""
    found: list[Experiment] = []
    token: str | None = None
    while True:
        page = client.search_experiments(max_results=_RUNS_PER_PAGE, page_token=token)
        found.extend(page)
        token = page.token
        if not token:
            return found


def own_runs(client: MlflowClient, flow_run_id: str) -> list[Run]:
    """The MLflow runs that stand for the flow run: the tracked one first, then newest first.

    A child of one of its own MLflow runs, deleted or not, is a part of the flow run. A child of
    any other, such as the parent of a sweep, is a flow run's whole; one without a parent comes
    before it.
    """
    found: list[Run] = []
    token: str | None = None
    experiment_ids = [experiment.experiment_id for experiment in all_experiments(client)]
    while True:
        page = client.search_runs(
            experiment_ids,
            filter_string=f"tags.`{FLOW_RUN_TAG}` = '{flow_run_id}'",
            run_view_type=ViewType.ALL,
            max_results=_RUNS_PER_PAGE,
            order_by=["attributes.start_time DESC"],
            page_token=token,
        )
        found.extend(page)
        token = page.token
        if not token:
            break
    ids = {run.info.run_id for run in found}
    whole = [
        run
        for run in found
        if run.info.lifecycle_stage == LifecycleStage.ACTIVE
        and run.data.tags.get(PARENT_TAG) not in ids
    ]
    return sorted(
        whole, key=lambda run: (TRACKED_RUN_TAG not in run.data.tags, PARENT_TAG in run.data.tags)
    )


def _create_run(client: MlflowClient, record: RunRecord) -> Run:
    run = client.create_run(
        experiment_id(client, record.experiment or DEFAULT_EXPERIMENT),
        start_time=int(record.submitted_at.timestamp() * 1000),
        run_name=record.name,
        # A flow that begins to track later continues in this very run.
        tags={FLOW_RUN_TAG: record.flow_run_id, TRACKED_RUN_TAG: "true"},
    )
    # Nothing runs in it: it only holds the cost.
    client.set_terminated(run.info.run_id)
    return run


def _supersede(client: MlflowClient, older: Run) -> None:
    if _STATUS_TAG not in older.data.tags:
        return
    logged = [name for name in older.data.metrics if name.startswith(_METRIC_PREFIX)]
    _write(client, older, dict.fromkeys(logged, 0.0), {_STATUS_TAG: CostStatus.SUPERSEDED.value})


def _improvement(client: MlflowClient, run: Run, total_usd: float | None) -> dict[str, float]:
    """The improvement that the run's tags ask for; none where a tag or the baseline is missing."""
    tags = run.data.tags
    baseline_id, quality = tags.get(BASELINE_TAG), tags.get(QUALITY_TAG)
    if baseline_id is None or quality is None:
        return {}
    try:
        baseline = client.get_run(baseline_id).data.metrics
    except MlflowException as error:
        if error.error_code not in _NO_SUCH_RUN:
            raise
        baseline = {}
    found = improvement_per_usd(
        run.data.metrics.get(quality),
        baseline.get(quality),
        tags.get(GOAL_TAG, "higher"),
        total_usd,
    )
    return {} if found is None else {"cost/improvement_per_usd": found}


def _keep_views(client: MlflowClient, run: Run) -> None:
    """Give the run's experiment its views; the cost is logged even where that is refused."""
    try:
        experiment = client.get_experiment(run.info.experiment_id)
        for name, text in experiment_tags(experiment.tags, run.data.metrics).items():
            client.set_experiment_tag(experiment.experiment_id, name, text)
    except MlflowException as error:
        _log.warning("Failed to save views in MLflow: %s", error.error_code)


def _write(client: MlflowClient, run: Run, metrics: dict[str, float], tags: dict[str, str]) -> None:
    for name, value in metrics.items():
        if run.data.metrics.get(name) != value:
            client.log_metric(run.info.run_id, name, value)
    for name, text in tags.items():
        if run.data.tags.get(name) != text:
            client.set_tag(run.info.run_id, name, text)


def _metrics(cost: RunCost) -> dict[str, float]:
    use = _gpu_use(cost)
    known = {
        "cost/gpu_util_avg": use.utilization_mean_ratio,
        "cost/sm_active_avg": use.sm_active_mean_ratio,
        "cost/energy_kwh": use.energy_kwh,
        "cost/total_usd": _usd(cost.usage),
        "cost/gpu_usd": _part_usd(cost, cost.usage.gpu_micro_usd),
        "cost/cpu_memory_usd": _part_usd(cost, cost.usage.cpu_micro_usd + cost.usage.gib_micro_usd),
        "cost/retry_waste_usd": _usd(cost.lost),
        "cost/checkpoint_saved_usd": _usd(cost.saved),
        "cost/gpu_hours": cost.usage.gpu_hours,
        "cost/gpu_hours_unpriced": cost.usage.unpriced_gpu_s / SECONDS_PER_HOUR,
        "cost/gpu_hours_lost": cost.lost.gpu_hours,
        "cost/attempts": float(len(cost.attempts)),
        "cost/wait_s": cost.wait_s,
    }
    return {name: value for name, value in known.items() if value is not None}


def _with_children(own: Usage, children: Usage | None) -> dict[str, float]:
    """The sums over the runs that it started; without those of which a part has no price."""
    if children is None:
        return {}
    sums = {
        "cost/children_usd": _usd(children),
        "cost/total_with_children_usd": _usd(own + children),
    }
    return {name: usd for name, usd in sums.items() if usd is not None}


def _gpu_use(cost: RunCost) -> GpuUse:
    return gpu_use(each for attempt in cost.attempts for each in attempt.gpu_summaries or ())


def _usd(usage: Usage) -> float | None:
    # Not rounded to micro-dollars, so that runs that share a GPU add up to the price of the GPU.
    return None if usage.is_unpriced else float(usage.exact_micro_usd / Fraction(MICRO_USD_PER_USD))


def _part_usd(cost: RunCost, micro_usd: Fraction | int) -> float | None:
    """A part of the cost; None: unknown, or the price of the rest includes it."""
    if cost.usage.is_unpriced or not micro_usd:
        return None
    return float(micro_usd / Fraction(MICRO_USD_PER_USD))


def _tags(record: RunRecord, cost: RunCost, status: CostStatus, price_book: str) -> dict[str, str]:
    use = _gpu_use(cost)
    known = {
        "cost.gpu_use": ("simulated" if use.is_simulated else "measured") if use.samples else "",
        "cost.basis": "allocated",
        "cost.currency": "USD",
        _STATUS_TAG: status.value,
        "cost.provenance": record.provenance.value,
        "cost.gpu_type": _distinct([a.gpu_type for a in cost.attempts]),
        "cost.gpu_count": _distinct([str(a.gpus) for a in cost.attempts]),
        "cost.capacity_type": _distinct([a.capacity_type for a in cost.attempts]),
        "cost.price_book": price_book,
        FLOW_RUN_TAG: record.flow_run_id,
        "prefect.deployment": record.deployment,
        "prefect.attempt": str(max((a.number for a in cost.attempts), default=0)),
        "finops.team": record.team,
        "finops.project": record.project,
    }
    return {name: text for name, text in known.items() if text}


def _description(run: Run, record: RunRecord) -> dict[str, str]:
    """A link to the flow run's page in Prefect, which MLflow shows; a user's description stays."""
    page = url_for("flow-run", obj_id=record.flow_run_id)
    if page is None or _DESCRIPTION_TAG in run.data.tags:
        return {}
    return {_DESCRIPTION_TAG: f"Prefect flow run [{escaped(record.name)}]({page})"}


def _distinct(values: Sequence[str | None]) -> str:
    """The values in their order, each once: `t4`, or `t4,a10g` after a change of GPU type."""
    return ",".join(dict.fromkeys(value for value in values if value))
