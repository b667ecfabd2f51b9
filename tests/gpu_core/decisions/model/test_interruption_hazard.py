"""How long capacity lives: by its age, written as text, and learned from what was seen."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.capacity_life import CapacityLife, LifeStage
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.interruption_hazard import (
    SPOT_PRIOR,
    ObservedLife,
    learned_life,
)

TWO_STAGES = CapacityLife((LifeStage(0, 1000), LifeStage(600, 6000)))


@st.composite
def capacity_lives(draw: st.DrawFn) -> CapacityLife:
    ages = sorted(draw(st.sets(st.integers(1, 100_000), max_size=4)))
    means = st.integers(1, 10**6)
    return CapacityLife(tuple(LifeStage(age_s, draw(means)) for age_s in [0, *ages]))


@pytest.mark.parametrize(
    ("age_s", "horizon_s", "want_s"),
    [
        pytest.param(0, 0, 1000, id="new"),
        pytest.param(599, 0, 1000, id="just before the second stage"),
        pytest.param(600, 0, 6000, id="in the second stage"),
        pytest.param(10**6, 0, 6000, id="very old"),
        pytest.param(0, 600, 1000, id="over one stage"),
        pytest.param(0, 1200, 1200 / (600 / 1000 + 600 / 6000), id="over both stages"),
    ],
)
def test_the_mean_life_is_that_of_the_age(age_s: float, horizon_s: float, want_s: float) -> None:
    """Over a horizon it is the time by the interruptions expected in it."""
    assert TWO_STAGES.mean_life_s(age_s, horizon_s) == pytest.approx(want_s)


def test_survival_multiplies() -> None:
    """To reach an age is to reach one before it, and then to go on."""
    whole = TWO_STAGES.survival(0, 1200)
    assert whole == pytest.approx(math.exp(-0.7))
    assert whole == pytest.approx(TWO_STAGES.survival(0, 500) * TWO_STAGES.survival(500, 1200))


@pytest.mark.parametrize(
    ("age_min", "want_share"), [(0, 0.69), (30, 0.87), (60, 0.88), (120, 0.94)]
)
def test_the_prior_is_what_was_published(age_min: float, want_share: float) -> None:
    """The share that lives another twelve minutes, within 0.05."""
    age_s = age_min * 60
    assert SPOT_PRIOR.survival(age_s, age_s + 720) == pytest.approx(want_share, abs=0.05)


@given(capacity_lives())
def test_text_and_back(life: CapacityLife) -> None:
    """An environment variable carries a life into the run."""
    assert CapacityLife.from_text(life.to_text()) == life


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0:",
        "0:x",
        "60:100",
        "0:100,50",
        "0:100,50:1,40:2",
        "0:0",
        "0:-1",
        "0:nan",
        "0:inf",
    ],
)
def test_what_is_no_life(text: str) -> None:
    """The error shows what came and what is allowed."""
    with pytest.raises(InvalidInput, match="capacity_life is no life") as caught:
        CapacityLife.from_text(text)
    assert "AGE_S:MEAN_LIFE_S" in str(caught.value)


def test_nothing_observed_leaves_the_prior() -> None:
    """No observation, no opinion."""
    assert learned_life([], SPOT_PRIOR) == SPOT_PRIOR


def test_a_life_is_learned_by_occurrence_and_exposure() -> None:
    """Four lives that end at 500 s, on a prior of four interruptions in 4,000 s."""
    learned = learned_life([ObservedLife(500, True)] * 4, CapacityLife.constant(1000))
    assert learned == CapacityLife.constant((4 * 500 + 4 * 1000) / 8)


def test_what_still_lives_counts_as_exposure_only() -> None:
    """It makes lives longer, never shorter."""
    learned = learned_life([ObservedLife(4000, was_interrupted=False)], TWO_STAGES)
    assert learned.stages == (LifeStage(0, 1150), LifeStage(600, 6850))


@given(st.lists(st.builds(ObservedLife, st.floats(0, 1e6), st.booleans())), st.randoms())
def test_the_order_of_observations_does_not_matter(lives: list[ObservedLife], chance) -> None:
    """What is learned depends on what was seen, not on when it was reported."""
    shuffled = list(lives)
    chance.shuffle(shuffled)
    means = [[s.mean_life_s for s in learned_life(x, SPOT_PRIOR).stages] for x in (lives, shuffled)]
    assert means[0] == pytest.approx(means[1])
