"""The time of each batch, in sequence."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from gpu_core.decisions.optimization.experiments.trial import Timed
from gpu_core.runtime.inference.workload import Infer, InferenceModel

_DRAWN = 1024
"""Inputs of a repeat; they are used again and again until its time is over."""
_WARM_UP_BATCHES = 3


def prepared(
    workload: InferenceModel, infer: Infer, batch_size: int, seed: int
) -> tuple[Sequence[Any], Any]:
    """Batches with the right answers to all of them, after some batches to warm up."""
    count = max(1, _DRAWN // batch_size) * batch_size
    inputs, right = workload.inputs(count, seed)
    batches = [inputs[start : start + batch_size] for start in range(0, count, batch_size)]
    for number in range(_WARM_UP_BATCHES):
        infer(batches[number % len(batches)])
    return batches, right


def timed(
    workload: InferenceModel,
    infer: Infer,
    batches: Sequence[Any],
    right: Any,
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> Timed:
    """Answer batches for this time, at least one.

    The quality is that of the first answer to each input that was answered.
    """
    taken: list[float] = []
    answers: list[Any] = []
    began = now = clock()
    while not taken or now - began < seconds:
        before = now
        answer = infer(batches[len(taken) % len(batches)])
        now = clock()
        if len(taken) < len(batches):
            answers.append(answer)
        taken.append(now - before)
    answered = [each for answer in answers for each in answer]
    return Timed(
        batch_size=len(batches[0]),
        batches_s=tuple(taken),
        took_s=now - began,
        quality=workload.quality(answered, right[: len(answered)]),
    )
