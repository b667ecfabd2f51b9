"""Calls that may hang."""

from threading import Event

import pytest

from gpu_core.worker.operations.bounded_call import BoundedCall


def test_a_call_that_hangs_is_not_waited_for_and_not_repeated():
    released, calls = Event(), []

    def hang():
        calls.append(1)
        released.wait()
        return "late"

    call = BoundedCall()
    for wait_s in (0, 30, 30):  # the second call would wait for half a minute
        with pytest.raises(TimeoutError):
            call.of(hang, wait_s)
    assert len(calls) <= 1
    released.set()
    call._call.result(30)
    assert call.of(lambda: "new", 30) == "new"


def test_an_error_of_the_call_is_raised_and_the_next_call_begins():
    call = BoundedCall()
    with pytest.raises(ZeroDivisionError):
        call.of(lambda: 1 // 0, 30)
    assert call.of(lambda: 2, 30) == 2
