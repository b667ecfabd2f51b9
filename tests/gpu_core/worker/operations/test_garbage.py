"""A worker seldom looks for cycles of garbage, and leaves Python as it was."""

import gc
import subprocess
import sys

import pytest

from gpu_core.worker.operations.garbage import YOUNG_OBJECTS, RareGarbageCollection
from tests.gpu_core.worker.operations.garbage_cases import CASES
from tests.support.light_worker import LIGHT_WORKER


@pytest.fixture(autouse=True)
def _as_before():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.fixture
def _no_full_look(monkeypatch):
    """The look at all objects of the tests' process takes a second, and sets no threshold."""
    monkeypatch.setattr(RareGarbageCollection, "_look_at_all", lambda self: None)


@pytest.mark.parametrize(
    ("before", "want_young"),
    [
        pytest.param((700, 10, 10), YOUNG_OBJECTS, id="Python's default"),
        pytest.param((10 * YOUNG_OBJECTS, 5, 5), 10 * YOUNG_OBJECTS, id="rarer already"),
        pytest.param((0, 10, 10), 0, id="never, as its user wants"),
    ],
)
@pytest.mark.usefixtures("_no_full_look")
def test_it_is_rare_while_the_context_is_open(before, want_young):
    gc.set_threshold(*before)
    with RareGarbageCollection():
        assert gc.get_threshold() == (want_young, *before[1:])
    assert gc.get_threshold() == before


@pytest.mark.usefixtures("_no_full_look")
def test_an_error_leaves_python_as_it_was():
    before = gc.get_threshold()
    with pytest.raises(LookupError), RareGarbageCollection():
        raise LookupError
    assert gc.get_threshold() == before


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_in_a_process_with_few_objects(case):
    """A process that other work shares no objects with; what its assertion says is printed."""
    program = f"{LIGHT_WORKER}\nfrom {case.__module__} import {case.__name__} as case\ncase()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
