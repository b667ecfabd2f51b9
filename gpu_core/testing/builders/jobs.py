"""Jobs whose memory and duration are estimated."""

from typing import Any

from gpu_core.decisions.requests.requirements.jobs.job import Job, Method
from gpu_core.decisions.requests.requirements.jobs.models import KNOWN_MODELS, transformer_of


def make_job(model: str | float = "llama-2-7b", method: str = "full", **changes: Any) -> Job:
    """A job on a known model, or on a transformer of this many billion parameters."""
    values: dict[str, Any] = {
        "model": KNOWN_MODELS[model]
        if isinstance(model, str)
        else transformer_of(round(model * 1e9)),
        "method": Method(method),
        "amount": 1e9,
    }
    return Job(**(values | changes))
