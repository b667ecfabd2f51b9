"""The cost of a step or a sample, and of an improvement over a baseline."""

from collections.abc import Mapping

_COUNTED = {
    "steps": ("cost/usd_per_1k_steps", 1_000),
    "samples": ("cost/usd_per_1k_samples", 1_000),
    "tokens": ("cost/usd_per_1m_tokens", 1_000_000),
    "epochs": ("cost/usd_per_epoch", 1),
}
"""The metrics in which a run may log how much it did, and what is logged for each."""

BASELINE_TAG = "cost.baseline_run_id"
"""The MLflow run that a run is compared with."""
QUALITY_TAG = "cost.quality_metric"
"""The metric that says how good a run is."""
GOAL_TAG = "cost.quality_goal"
"""`higher`, the default, or `lower`: which values of that metric are better."""

_SIGNS = {"higher": 1, "lower": -1}


def usd_per_count(total_usd: float | None, metrics: Mapping[str, float]) -> dict[str, float]:
    """The cost of each thing that the run counts, by the name of its metric.

    Args:
        total_usd: The cost of the whole run; None: a part has no price.
        metrics: What the run logged; counts of 0 or less say nothing.
    """
    if total_usd is None:
        return {}
    return {
        name: total_usd * unit / metrics[counted]
        for counted, (name, unit) in _COUNTED.items()
        if metrics.get(counted, 0) > 0
    }


def improvement_per_usd(
    quality: float | None, baseline: float | None, goal: str, total_usd: float | None
) -> float | None:
    """How much better than its baseline is a run, for each dollar that it cost?

    Negative where it is worse. None: unknown, or it cost nothing.

    Args:
        quality: The run's last value of the quality metric.
        baseline: The baseline's.
        goal: `higher` or `lower`: which is better.
        total_usd: The cost of the run.
    """
    sign = _SIGNS.get(goal)
    if quality is None or baseline is None or sign is None or not total_usd:
        return None
    return sign * (quality - baseline) / total_usd
