"""A small computation on the only visible GPU, whose result is known: prints what it showed.

Run as a process of its own, with `python -m`: a GPU that fails may end it, or let it hang.
"""

import json
from collections.abc import Callable
from typing import Any

_BLOCK_BYTES = 256 * 1024**2

# Others may need some of it at this moment: a desktop, the driver.
_PART_OF_FREE = 0.8

# 6 x 3 x 2048 is exact also where a library computes with 10 bits of mantissa (TF32).
_SIZE = 2048


def find_fault(arrays: Any, free_bytes: int) -> tuple[int, str | None]:
    """Does the GPU keep what is written to it, copy it, and multiply matrices rightly?

    Args:
        arrays: A module with the functions that NumPy, CuPy and PyTorch have in common, whose
            arrays are on the GPU.
        free_bytes: The memory that is free there.

    Returns:
        How many bytes were written and compared, and what was wrong; None: nothing.
    """
    size = max(1, min(_BLOCK_BYTES, int(free_bytes * _PART_OF_FREE)))
    number = max(1, int(free_bytes * _PART_OF_FREE) // size)
    # All are written before the first is read: each holds another value.
    blocks = [arrays.full((size,), n % 251, dtype=arrays.uint8) for n in range(number)]
    for place in range(number):
        block = blocks[place]
        blocks[place] = None  # its copy needs the room of one block
        is_wrong = bool((block != place % 251).any()) or bool(
            ((block + 1) != place % 251 + 1).any()
        )
        if is_wrong:
            return place * size, f"memory block {place + 1} of {number} failed verification"
    rows = (arrays.arange(_SIZE, dtype=arrays.float32) % 7).reshape(_SIZE, 1)
    left = rows * arrays.ones((1, _SIZE), dtype=arrays.float32)
    right = arrays.full((_SIZE, _SIZE), 3.0, dtype=arrays.float32)
    if bool(((left @ right) != rows * (3.0 * _SIZE)).any()):
        return number * size, "a matrix multiplication returned an incorrect result"
    return number * size, None


def _torch() -> tuple[Any, int]:
    import torch  # not a dependency: what runs use

    torch.set_default_device("cuda")
    return torch, torch.cuda.mem_get_info()[0]


def _cupy() -> tuple[Any, int]:
    import cupy  # not a dependency: what runs use

    return cupy, cupy.cuda.runtime.memGetInfo()[0]


_LIBRARIES: dict[str, Callable[[], tuple[Any, int]]] = {"PyTorch": _torch, "CuPy": _cupy}


def main() -> None:
    """Print as JSON which library computed, how much was compared, and what was wrong."""
    for library, load in _LIBRARIES.items():
        try:
            arrays, free_bytes = load()
        except ImportError:
            continue
        compared_bytes, fault = find_fault(arrays, free_bytes)
        print(json.dumps({"library": library, "bytes": compared_bytes, "fault": fault}))
        return
    print(json.dumps({"library": None, "bytes": 0, "fault": None}))


if __name__ == "__main__":
    main()
