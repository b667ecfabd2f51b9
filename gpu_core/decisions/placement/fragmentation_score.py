"""The value of free GPUs for the expected mix of requests."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI, Shape

Milli = tuple[int, ...]
"""The free part of each GPU of a node, in thousandths, ascending; padded with zeros to the same
length for all nodes."""

_COPIES = 16
"""More copies of one shape on a node do not change a comparison."""
_SCALE = 2**32
"""Scores are whole multiples of its inverse, so that sums are exact in any order."""


class CpuBuckets:
    """CPU left in equal steps, rounded down.

    Workloads request whole cores, halves or quarters, and steps match them, so that exactly enough
    CPU is not rounded to too little.

    Column 0 of every table stands for less than nothing, column 1 for less than one step.

    Args:
        most_milli: The CPU of the largest node, in thousandths of cores.
    """

    _STEPS = 128
    _LEAST_STEP_MILLI = 125

    def __init__(self, most_milli: int) -> None:
        self._step_milli = self._LEAST_STEP_MILLI
        while self._step_milli * self._STEPS < most_milli:
            self._step_milli *= 2
        self.columns = self._STEPS + 2

    def columns_of(self, cpu_milli: NDArray[np.int64]) -> NDArray[np.int64]:
        """The column of each of these amounts."""
        columns: NDArray[np.int64] = cpu_milli // self._step_milli
        columns += 1
        np.maximum(columns, 0, out=columns)
        return np.minimum(columns, self.columns - 1, out=columns)

    def column_of(self, cpu_milli: int) -> int:
        """The column of this amount."""
        return min(max(cpu_milli // self._step_milli + 1, 0), self.columns - 1)

    def least_milli(self) -> NDArray[np.int64]:
        """The least CPU of each column but the first."""
        return np.arange(self.columns - 1, dtype=np.int64) * self._step_milli


class FragmentationScore:
    """The worth of a node's free capacity to a mix of requests.

    The sum over the shapes of the mix of p s H(n): p is the shape's fraction of the requests, s its
    size, n how many of it fit on the node, by GPUs and by CPU, without other shapes, and
    H(n) = 1 + 1/2 + ... + 1/n. The n-th fit of a shape scores 1/n of the first, so a node that
    fits many shapes scores more than one that fits one shape often.

    The size is g^1.5 times the share of each of the g GPUs: capacity for many GPUs at once is
    scarcer than the same capacity for single GPUs. The exponent, of 1, 1.5, 2 and 3, allocated
    most on the OpenB orders default 43 and 44 and cpu250 42 together, and on shuffled multigpu50.

    FGD (Weng et al., "Beware of Fragmentation", USENIX ATC'23) counts all that is left
    of a GPU as usable for a shape that fits once; here 1000 left score 810 for a shape of 810,
    and nothing without CPU. Main memory is left out: it seldom decides.

    Args:
        mixes: For each class of nodes, how often each suitable shape is requested, in any unit.
        total: How often any shape is requested, in the same unit.
        buckets: The steps of CPU.
    """

    def __init__(
        self, mixes: Sequence[Mapping[Shape, float]], total: float, buckets: CpuBuckets
    ) -> None:
        asks = sorted({_ask(shape) for mix in mixes for shape in mix if shape.gpu_count})
        at = {ask: number for number, ask in enumerate(asks)}
        self._counts = np.array([count for count, _ in asks], dtype=np.int64)
        milli = np.array([milli for _, milli in asks], dtype=np.int64)
        self._parts_in = np.arange(WHOLE_GPU_MILLI + 1)[:, None] // milli
        """How many parts of each request fit on a GPU, by what is left of it."""
        worths = np.zeros((len(mixes), len(asks), _COPIES + 1, buckets.columns))
        copies = np.arange(1, _COPIES + 1)[:, None]
        for table, mix in zip(worths, mixes, strict=True):
            for shape, weight in mix.items():
                if shape.gpu_count:
                    size = shape.gpu_count**1.5 * shape.gpu_share_milli / WHOLE_GPU_MILLI
                    worth = _SCALE * weight / total * size
                    has_cpu = copies * shape.cpu_milli <= buckets.least_milli()
                    table[at[_ask(shape)], 1:, 1:] += has_cpu * np.rint(worth / copies)
        self._worths = worths.cumsum(axis=2).reshape(-1, buckets.columns)
        """A row for each class, ask and number of copies."""
        numbers = np.arange(len(mixes) * len(asks)).reshape(len(mixes), len(asks))
        self._first = (_COPIES + 1) * numbers
        """The first row of each class and request."""

    def rows(self, classes: Sequence[int], free: Sequence[Milli]) -> NDArray[np.float64]:
        """The scores of these GPUs, for each bucket of CPU.

        Args:
            classes: The class of each node.
            free: The free GPUs of each node.

        Returns:
            A row for each node, a column for each bucket.
        """
        copies = self._parts_in[np.array(free, dtype=np.int64)].sum(axis=1) // self._counts
        rows = self._first[np.array(classes, dtype=np.int64)] + np.minimum(copies, _COPIES)
        worths: NDArray[np.float64] = self._worths.take(rows, axis=0).sum(axis=1)
        return worths


def _ask(shape: Shape) -> tuple[int, int]:
    return shape.gpu_count, shape.gpu_share_milli
