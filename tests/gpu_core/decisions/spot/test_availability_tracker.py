"""Since when a workload could have had spot, or not."""

from gpu_core.decisions.spot.availability_tracker import SpotAvailabilityTracker
from gpu_core.testing.builders.workloads import NOW, ago


def test_ages_begin_anew_with_each_change_and_each_that_is_forgotten():
    availability = SpotAvailabilityTracker()

    def age_s(seconds_ago, is_up, who="a"):
        return availability.age_s(who, is_up=is_up, now=ago(seconds_ago))

    assert [age_s(90, True), age_s(60, True), age_s(30, False), age_s(10, False)] == [0, 30, 0, 20]
    assert age_s(10, False, "b") == 0
    availability.keep({"b"})
    assert availability.age_s("b", is_up=False, now=NOW) == 10
    assert availability.age_s("a", is_up=False, now=NOW) == 0
