"""Few weeks say how uncertain the next ones are, if what they leave unknown is counted too."""

import numpy as np
import pytest

from gpu_core.decisions.optimization.proposals.prediction_interval import predicted_mean

HISTORIES = 20_000


@pytest.mark.parametrize(("seen", "future"), [(2, 1), (4, 2), (4, 1), (12, 2)])
def test_it_holds_the_mean_of_the_weeks_to_come_in_eighty_percent(seen, future):
    """Exactly, for a normal distribution; from four weeks a bootstrap holds 0.6 of them."""
    rng = np.random.default_rng(20261128)
    found = predicted_mean(rng.normal(5.0, 2.0, size=(seen, HISTORIES)), future)
    after = rng.normal(5.0, 2.0, size=(future, HISTORIES)).mean(axis=0)
    held = np.mean((found.low <= after) & (after <= found.high))
    # Three standard errors.
    assert held == pytest.approx(0.8, abs=3 * np.sqrt(0.8 * 0.2 / HISTORIES))
    assert np.mean(after < found.low) == pytest.approx(0.1, abs=0.01)


def test_weeks_that_are_equal_predict_themselves():
    found = predicted_mean(np.full((4, 1), 3.0), 2)
    assert [float(end[0]) for end in found] == [3.0, 3.0, 3.0]
