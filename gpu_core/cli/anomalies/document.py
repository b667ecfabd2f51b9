"""Anomalies for machines: money in micro-USD, unknown as null."""

from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from typing import Any

from gpu_core.decisions.costs.anomalies.decomposition.decomposition import Decomposition
from gpu_core.decisions.costs.anomalies.decomposition.drivers import Level
from gpu_core.decisions.costs.anomalies.decomposition.sentences import contribution_text
from gpu_core.decisions.costs.anomalies.detection.judgment import Judgment


def anomalies_document(first: date, last: date, found: Sequence[Judgment]) -> dict[str, Any]:
    """The anomalies of these days, and what could not be judged."""
    return {
        "first_day": first.isoformat(),
        "last_day": last.isoformat(),
        "anomalies": [_anomaly(each) for each in found if each.is_anomaly],
        "others": [
            {
                "day": each.day.isoformat(),
                "scope": each.scope,
                "verdict": each.verdict.value,
                "cost_micro_usd": each.cost_micro_usd,
                "expected_micro_usd": each.expected_micro_usd,
            }
            for each in found
            if not each.is_anomaly
        ],
    }


def _anomaly(judgment: Judgment) -> dict[str, Any]:
    why, action, since = judgment.why, judgment.action, judgment.since
    return {
        "day": judgment.day.isoformat(),
        "scope": judgment.scope,
        "kind": None if judgment.kind is None else judgment.kind.value,
        "cost_micro_usd": judgment.cost_micro_usd,
        "expected_micro_usd": judgment.expected_micro_usd,
        "sigmas": judgment.sigmas,
        "since": None if since is None else since.isoformat(),
        "is_new": judgment.is_new,
        "summary": judgment.summary,
        "why": None if why is None else _why(why),
        "runs": [
            {
                "flow_run_id": cause.run.flow_run_id,
                "name": cause.run.name,
                "cost_micro_usd": cause.cost_micro_usd,
                "excess_micro_usd": cause.excess_micro_usd,
            }
            for cause in judgment.causes
        ],
        "action": None
        if action is None
        else {"text": action.text, "micro_usd_per_day": action.micro_usd_per_day},
    }


def _why(why: Decomposition) -> dict[str, Any]:
    return {
        "excess_micro_usd": why.excess_micro_usd,
        "contributions": [
            {
                "driver": each.driver.value,
                "subject": each.subject,
                "micro_usd": each.micro_usd,
                "before": _level(each.before),
                "now": _level(each.now),
                "text": contribution_text(each),
            }
            for each in why.contributions
        ],
        "where": {
            dimension: [{"value": value, "micro_usd": micro_usd} for value, micro_usd in values]
            for dimension, values in why.where.items()
        },
    }


def _level(value: Level) -> str | float | None:
    return float(value) if isinstance(value, int | Fraction) else value
