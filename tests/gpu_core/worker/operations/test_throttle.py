"""At most once in an interval, and once until it changes."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gpu_core.worker.operations.throttle import LastSaid, Throttle


@given(st.lists(st.integers(0, 100), max_size=30).map(sorted), st.integers(0, 20))
def test_two_occurrences_are_an_interval_apart_and_none_is_late(moments_s, interval_s):
    throttle = Throttle(interval_s)
    allowed_s = [now_s for now_s in moments_s if throttle.allows(now_s)]
    assert allowed_s[:1] == moments_s[:1]
    assert all(b - a >= interval_s for a, b in pairwise(allowed_s))
    for now_s in moments_s:
        last_s = max(at_s for at_s in allowed_s if at_s <= now_s)
        assert now_s - last_s < max(interval_s, 1)


def test_what_is_asked_without_being_done_stays_due():
    throttle = Throttle(5)
    assert throttle.is_due(1)
    assert throttle.is_due(1)
    throttle.start(1)
    assert not throttle.is_due(5.9)
    assert throttle.is_due(6)


def test_after_a_reset_the_next_occurrence_is_due_at_once():
    throttle = Throttle(5)
    assert throttle.allows(1)
    assert not throttle.allows(2)
    throttle.reset()
    assert throttle.allows(2)


def test_a_condition_is_news_once_until_it_changes_or_is_over():
    said = LastSaid()
    assert [said.is_news(text) for text in ("a", "a", "b", "a", "a")] == [1, 0, 1, 1, 0]
    said.forget()
    assert said.is_news("a")
