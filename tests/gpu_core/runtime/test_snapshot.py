"""A snapshot holds a state as it was, and gives it back with its types."""

import pickle
from collections import OrderedDict
from datetime import date

import pytest

from gpu_core.decisions.checkpoints.manifest import BYTES, PICKLE, PLAIN, SECTIONS
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.runtime import snapshot
from gpu_core.runtime.snapshot import Snapshots, restored

numpy = pytest.importorskip("numpy")

LARGE = numpy.arange(30_000, dtype="float64")


class Model:
    """What only pickle can hold."""

    def __init__(self, weights: object) -> None:
        self.weights = weights


def back_and_forth(state: object) -> object:
    payload_format, payload = Snapshots().take(state)
    return restored(payload_format, bytes(payload.content))


@pytest.mark.parametrize(
    ("state", "want_format"),
    [
        pytest.param(b"\x00" * 100_000, BYTES, id="bytes"),
        pytest.param({"step": 1}, PLAIN, id="no arrays"),
        pytest.param({"small": LARGE[:10]}, PLAIN, id="a small array"),
        pytest.param({"a": LARGE, "b": [LARGE.astype("int8")]}, PLAIN, id="large arrays"),
        pytest.param(LARGE.reshape(100, 300).T, PLAIN, id="Fortran's order"),
        pytest.param(LARGE[::2], PLAIN, id="an array with gaps is copied by NumPy"),
        pytest.param(numpy.empty((0, 3)), PLAIN, id="an empty array"),
        pytest.param(numpy.array(["x", None], dtype=object), PICKLE, id="an array of objects"),
        pytest.param(
            OrderedDict(w=numpy.zeros(9000, dtype=[("x", "f4"), ("y", "i8")])), PLAIN, id="records"
        ),
        pytest.param({"when": date(2026, 3, 1), "a": LARGE}, SECTIONS, id="an object and an array"),
        pytest.param({"when": date(2026, 3, 1), "a": LARGE[:10]}, PICKLE, id="an object"),
    ],
)
def test_a_state_comes_back(state: object, want_format: str) -> None:
    """Value, type and layout are those that were taken."""
    payload_format, _ = Snapshots().take(state)
    assert payload_format == want_format
    back = back_and_forth(state)
    assert type(back) is type(state)
    assert pickle.dumps(back) == pickle.dumps(state)


def test_why_a_state_is_pickled_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """The run's page says what to change; it is not found out again at each save."""
    caplog.set_level("INFO")
    snapshots = Snapshots()
    for state in ({"models": [Model(LARGE)]}, {"models": [Model(LARGE)]}, {"plain": LARGE}):
        assert snapshots.take(state)[0] == SECTIONS
    (reported,) = [r.getMessage() for r in caplog.records if "Using pickle" in r.getMessage()]
    assert f"because state['models'][0] is of the type {__name__}.Model" in reported


def test_a_policy_that_refuses_pickles_refuses_such_a_state() -> None:
    """It would be refused at every save: the flow has to know at once, and what to change."""
    snapshots = Snapshots(refuses_pickles=True)
    with pytest.raises(InvalidInput, match=r"state\['model'\] is of the type .*state_dict\(\)"):
        snapshots.take({"step": 1, "model": Model(LARGE)})
    assert snapshots.take({"step": 1, "model": LARGE})[0] == PLAIN


def test_read_only_arrays_are_taken_too() -> None:
    """Whether an array may change says nothing about whether it can be saved."""
    frozen = LARGE.copy()
    frozen.flags.writeable = False
    assert (back_and_forth({"a": frozen})["a"] == LARGE).all()


def test_large_arrays_are_copied_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """By several threads, in pieces of which the last is short."""
    monkeypatch.setattr(snapshot, "_COPIED_AT_ONCE_BYTES", 100_000)
    large = numpy.arange(90_001, dtype="int64")
    payload_format, payload = Snapshots().take([large, large[:3000] * 2])
    large[:] = 0
    assert payload_format == PLAIN
    back = restored(payload_format, bytearray(payload.content))
    assert back[0].tolist() == [*range(90_001)]
    assert back[1].tolist() == [*range(0, 6000, 2)]


def test_the_same_memory_holds_smaller_and_larger_states() -> None:
    """Each payload is as long as its state."""
    snapshots = Snapshots()
    for count in (5_000, 3_000, 20_000, 20_000):
        payload_format, payload = snapshots.take({"a": LARGE[:count]})
        assert restored(payload_format, bytes(payload.content))["a"].tolist() == [*range(count)]


def test_what_cannot_be_pickled_is_the_flows_error() -> None:
    """It would fail every time: the flow has to know at once."""
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError), match=r"lambda|pickle"):
        Snapshots().take({"function": lambda: None})


def test_a_later_format_is_refused() -> None:
    """It is not guessed at."""
    with pytest.raises(ValueError, match="'zstd' is unknown"):
        restored("zstd", b"")
