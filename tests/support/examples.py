"""How many examples a property gets, or rounds a test of random input."""

from hypothesis import settings

_HYPOTHESIS_DEFAULT = 100


def examples(full: int) -> int:
    """How many examples of a property that has this many with `make test-all`?

    CI and `make test` take the same share of them as of the properties that name no number.

    Args:
        full: What `make test-all` and `pytest` alone take.
    """
    return max(1, full * settings.default.max_examples // _HYPOTHESIS_DEFAULT)
