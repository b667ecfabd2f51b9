"""Workloads for tests of the measurement: as quick as nothing, slow in pairs, or broken."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.runtime.inference.workload import Unsupported


@dataclass(frozen=True, slots=True)
class Parity:
    """Says of each number whether it is odd; in int8 it takes all numbers for even."""

    device: str = "cpu"
    what: str = "the parity of whole numbers"

    def at(self, precision: Precision) -> Callable[[list[int]], list[int]]:
        if precision is Precision.FP32:
            return lambda batch: [number % 2 for number in batch]
        if precision is Precision.INT8:
            return lambda batch: [0 for _ in batch]
        raise Unsupported(f"numbers have no {precision}")

    def inputs(self, count: int, seed: int) -> tuple[list[int], list[int]]:
        numbers = [seed + n for n in range(count)]
        return numbers, [number % 2 for number in numbers]

    def quality(self, answers: list[int], right: list[int]) -> float:
        return sum(a == b for a, b in zip(answers, right, strict=True)) / len(right)


def parity() -> Parity:
    """The workload."""
    print("a library's own message")  # it must not be taken for an answer
    return Parity()


def ends_at_once() -> Parity:
    """End the process."""
    sys.exit(3)
