"""A small computation with a known result: on NumPy's arrays, whose functions the others have."""

from types import SimpleNamespace

import numpy as np
import pytest

from gpu_core.adapters.compute.probe import find_fault

MIB = 1024**2


def arrays(**changed):
    names = ("full", "ones", "arange", "uint8", "float32")
    return SimpleNamespace(**({name: getattr(np, name) for name in names} | changed))


def with_a_flipped_bit(shape, value, dtype):
    made = np.full(shape, value, dtype=dtype)
    if dtype == np.uint8:
        made[-1] ^= 4
    return made


def with_a_wrong_product(shape, value, dtype):
    return np.full(shape, value, dtype=dtype) + (0.5 if dtype == np.float32 else 0)


@pytest.mark.parametrize(
    ("module", "free_mib", "want_bytes", "want_fault"),
    [
        pytest.param(arrays(), 100, 80 * MIB, None, id="all is right"),
        pytest.param(arrays(), 640, 512 * MIB, None, id="two blocks"),
        pytest.param(arrays(), 0, 1, None, id="no memory is free"),
        pytest.param(
            arrays(full=with_a_flipped_bit),
            *(100, 0, "memory block 1 of 1 failed verification"),
            id="a bit of memory is flipped",
        ),
        pytest.param(
            arrays(full=with_a_wrong_product),
            *(100, 80 * MIB, "a matrix multiplication returned an incorrect result"),
            id="arithmetic is wrong",
        ),
    ],
)
def test_what_a_computation_finds(module, free_mib, want_bytes, want_fault):
    assert find_fault(module, free_mib * MIB) == (want_bytes, want_fault)
