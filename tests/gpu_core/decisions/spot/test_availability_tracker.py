"""Since when a workload could have had spot, or not."""

from gpu_core.decisions.spot.availability_tracker import SpotAvailabilityTracker
from gpu_core.testing.builders import NOW, ago


def test_ages_begin_anew_with_each_change_and_with_whoever_is_forgotten():
    sights = SpotAvailabilityTracker()

    def age_s(seconds_ago, is_up, who="a"):
        return sights.age_s(who, is_up=is_up, now=ago(seconds_ago))

    assert [age_s(90, True), age_s(60, True), age_s(30, False), age_s(10, False)] == [0, 30, 0, 20]
    assert age_s(10, False, "b") == 0
    sights.keep({"b"})
    assert sights.age_s("b", is_up=False, now=NOW) == 10
    assert sights.age_s("a", is_up=False, now=NOW) == 0
