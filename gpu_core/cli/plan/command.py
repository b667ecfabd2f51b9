"""`prefect-gpu plan`: which offering to take for a job, before anything starts."""

import json
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from gpu_core.adapters.files.catalog_file import load_catalog
from gpu_core.cli.plan.document import plan_document
from gpu_core.cli.plan.table import print_plan
from gpu_core.decisions.catalog.selection import Selection, selected
from gpu_core.decisions.offerings.constraints import (
    Conditions,
    Constraints,
    check_conditions,
    check_constraints,
    with_limits,
)
from gpu_core.decisions.offerings.observed_throughput import DeploymentThroughput, shown_by
from gpu_core.decisions.offerings.rank import choose
from gpu_core.decisions.requests.requirements.estimates.duration import ObservedThroughput
from gpu_core.decisions.requests.requirements.jobs.job import Job
from gpu_core.decisions.requests.requirements.reading.job_request import JobRequest, job_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRuns:
    """The source of a job's observed throughput."""

    ledger: str
    """Its file or address."""
    deployment: str
    amount_each: float | None
    """The amount of work of each of its runs; None: that of the planned job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The job and its constraints from the command line."""

    text: str | None
    stated: JobRequest
    constraints: Constraints
    conditions: Conditions
    observed: ObservedThroughput | None
    past: PastRuns | None
    """Instead of `observed`."""
    catalog_path: Path
    own_sheets: tuple[Path, ...]
    selection: Selection
    top: int
    as_json: bool


def plan(options: PlanOptions, now: datetime) -> int:
    """Print the ranking. 1: no offering meets the constraints.

    Raises:
        InvalidInput: Something that was asked for cannot be used, or no GPU holds the model.
    """
    # What is wrong with an option is reported before what is missing of the job.
    check_constraints(options.constraints, now)
    check_conditions(options.conditions)
    catalog = load_catalog(options.catalog_path, options.own_sheets)
    offerings = selected(catalog, options.selection)
    reading = job_of(options.text, options.stated)
    if reading.job is None:
        if options.as_json:
            print(json.dumps(plan_document(reading, None, options.constraints, now), indent=2))
        else:
            print_plan(reading, None, options.constraints, now)
        return 0
    limits = reading.limits
    if options.selection.gpu_types:
        limits = replace(limits, gpu_types=())
    constraints = with_limits(options.constraints, limits, now)
    history = None if options.past is None else _history(options.past, reading.job)
    choice = choose(
        reading.job,
        catalog,
        offerings,
        constraints,
        now,
        conditions=options.conditions,
        observed=options.observed if history is None else history.observed,
    )
    if options.as_json:
        print(json.dumps(plan_document(reading, choice, constraints, now, history), indent=2))
    else:
        print_plan(reading, choice, constraints, now, history=history, top=options.top)
    return 0 if choice.is_feasible else 1


def _history(past: PastRuns, job: Job) -> DeploymentThroughput:
    # SQLAlchemy takes longer to load than a plan takes.
    from gpu_core.adapters.traces.ledger import read_records

    amount_each = job.amount if past.amount_each is None else past.amount_each
    return shown_by(read_records(past.ledger), past.deployment, amount_each)
