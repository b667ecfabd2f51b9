"""How much free space a run needs before it begins to save."""

_MIB = 1024 * 1024
# States grow a little while they are trained, and a file system takes some for itself.
_MARGIN_PERCENT = 5
# Where no save is known: less would not take the state of any training that needs a GPU.
_LEAST_BYTES = 64 * _MIB


def needed_bytes(last_save_bytes: int | None) -> int:
    """How much must be free for one more save? Old checkpoints go only when it is safe.

    Args:
        last_save_bytes: What the last save took; None: unknown.

    >>> needed_bytes(None) // 2**20, needed_bytes(2_000_000_000) // 10**6
    (64, 2100)
    """
    if last_save_bytes is None:
        return _LEAST_BYTES
    return max(_LEAST_BYTES, last_save_bytes * (100 + _MARGIN_PERCENT) // 100)


def format_bytes(size_bytes: int) -> str:
    """The size in MiB, or in GiB from 10 GiB on.

    >>> format_bytes(5_000_000), format_bytes(20_000_000_000)
    ('4.8 MiB', '18.6 GiB')
    """
    mib = size_bytes / _MIB
    return f"{mib:,.1f} MiB" if mib < 10 * 1024 else f"{mib / 1024:,.1f} GiB"
