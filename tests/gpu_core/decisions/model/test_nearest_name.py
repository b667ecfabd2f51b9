"""Which name was meant: the nearest one, or the only one that begins so."""

import pytest

from gpu_core.decisions.model.errors import nearest_name

KEYS = ("enabled", "grace_period", "min_runtime", "Prices", "max_failures", "max_interruptions")


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("min_runtme", "min_runtime", id="a letter is missing"),
        pytest.param("price", "Prices", id="whatever its case"),
        pytest.param("gra", "grace_period", id="the beginning of one name"),
        pytest.param("gr", None, id="too short a beginning"),
        pytest.param("max", None, id="the beginning of two names"),
        pytest.param("xyz", None, id="nothing is near"),
        pytest.param("", None, id="nothing came"),
        pytest.param("g" * 1_000, None, id="no misspelling"),
    ],
)
def test_nearest_name(name: str, want: str | None) -> None:
    assert nearest_name(name, KEYS) == want
