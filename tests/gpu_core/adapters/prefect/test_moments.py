"""Moments of Prefect's client become plain ones."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st
from prefect.states import Completed

from gpu_core.adapters.prefect.moments import plain_moment

TOKYO = timezone(timedelta(hours=9))


ZONES = st.sampled_from([UTC, TOKYO])


@given(st.datetimes(timezones=ZONES).filter(lambda moment: 1 < moment.year < 9999))
def test_it_is_the_same_moment_to_the_microsecond(moment):
    assert plain_moment(moment) == moment
    assert plain_moment(moment).tzinfo is UTC


def test_that_of_a_state_is_plain():
    moment = Completed().timestamp
    assert type(plain_moment(moment)) is datetime
    assert plain_moment(moment) == moment
