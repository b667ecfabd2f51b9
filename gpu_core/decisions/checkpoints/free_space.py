"""The free space that a run needs before it begins to save."""

_MIB = 1024 * 1024
# States grow a little while they are trained, and a file system takes some for itself.
_MARGIN_PERCENT = 5
# For the manifest, and for what other runs write meanwhile.
_LEAST_BYTES = _MIB
# Where no save is known: less would not take the state of any training that needs a GPU.
_UNKNOWN_BYTES = 64 * _MIB


def needed_bytes(last_save_bytes: int | None) -> int:
    """How much must be free for one more save? Old checkpoints go only when it is safe.

    Args:
        last_save_bytes: What the last save took; None: unknown.

    >>> [needed_bytes(last) // 10**6 for last in (None, 100, 2_000_000_000)]
    [67, 1, 2100]
    """
    if last_save_bytes is None:
        return _UNKNOWN_BYTES
    return max(_LEAST_BYTES, last_save_bytes * (100 + _MARGIN_PERCENT) // 100)
