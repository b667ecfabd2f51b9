import doctest

from gpu_core.decisions.telemetry import use_text


def test_the_examples_are_true():
    assert doctest.testmod(use_text).failed == 0
