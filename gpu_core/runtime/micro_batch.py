"""How many samples at once? Fewer, after the run has run out of its GPU's memory."""

import logging
import os
from typing import NamedTuple

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.requests.run_context import RunContext

_log = logging.getLogger(__name__)


class MicroBatch(NamedTuple):
    """A micro-batch, and how often its gradients are added up for the same step."""

    size: int
    accumulation_steps: int


def micro_batch(size: int) -> MicroBatch:
    """How many samples does this attempt put on its GPU at once?

        batch = micro_batch(64)
        loader = DataLoader(data, batch_size=batch.size)
        ...
        (loss / batch.accumulation_steps).backward()

    Asking declares that the run can work with less: the policy `memory.action: shrink` halves it
    after each attempt that ran out of its GPU's memory. `accumulation_steps` micro-batches have at
    least as many samples as were asked for.

    Args:
        size: What the run uses with enough memory, 1 or more.

    Raises:
        InvalidInput: The size is under 1.
    """
    if size < 1:
        raise InvalidInput("size", "is out of range", got=size, allowed="1 or more")
    run = RunContext.from_environment(os.environ)
    divisor = 1 if run is None else run.micro_batch_divisor
    smaller = max(1, size // divisor)
    steps = -(-size // smaller)
    if smaller < size:
        _log.info("the micro-batch is %d instead of %d, in %d steps", smaller, size, steps)
    return MicroBatch(smaller, steps)
