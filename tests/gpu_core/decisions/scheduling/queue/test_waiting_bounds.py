"""How many runs may wait, and for how long: which are refused, and what they are asked."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.workload import Hold
from gpu_core.decisions.policy.waiting import WaitingPolicy
from gpu_core.decisions.scheduling.queue.waiting_bounds import WaitingRun, refused_runs
from gpu_core.testing.builders.workloads import NOW, ago, make_policy, make_workload

HELD = Hold(reason="Held", summary="", resolution="")


def waiting(name, age_s, created_s=None, has_begun=False, **changes):
    """A run whose scheduled start was `age_s` ago, made `created_s` ago."""
    workload = make_workload(name, submitted_at=ago(age_s), **changes)
    return WaitingRun(workload, ago(age_s if created_s is None else created_s), has_begun)


def refused(runs, **bounds):
    return [run.workload_id for run in refused_runs(runs, policy_of(**bounds), NOW)]


def policy_of(**bounds):
    return make_policy(waiting=bounds).waiting


@pytest.mark.parametrize(
    ("runs", "bounds", "want"),
    [
        pytest.param([("a", 9), ("b", 8)], {}, [], id="no bound is set"),
        pytest.param([("a", 9), ("b", 8)], {"max_runs": 2}, [], id="as many as may wait"),
        pytest.param(
            [("b", 8), ("c", 7), ("a", 9)], {"max_runs": 1}, ["c", "b"], id="the latest first"
        ),
        pytest.param([("b", 9), ("a", 9)], {"max_runs": 1}, ["b"], id="the same moment: by id"),
        pytest.param(
            [("a", 9), ("back-dated", 99, 5)],
            {"max_runs": 1},
            ["back-dated"],
            id="a start before its creation moves it before no other",
        ),
        pytest.param(
            [("a", 9), ("b", 8, 8, True)],
            {"max_runs": 1},
            [],
            id="one that has begun does not count",
        ),
        pytest.param(
            [("a", 9, 9, True), ("b", 8, 8, True)], {"max_runs": 1}, [], id="nor ever refused"
        ),
        pytest.param([("a", 61), ("b", 60)], {"expires_after": "1m"}, ["a"], id="stale"),
        pytest.param(
            [("a", 61, 5)], {"expires_after": "1m"}, ["a"], id="stale by its scheduled start"
        ),
        pytest.param(
            [("a", 999, 999, True)], {"expires_after": "1m"}, [], id="begun, and never stale"
        ),
        pytest.param(
            [("a", 61), ("b", 8)],
            {"expires_after": "1m", "max_runs": 1},
            ["a"],
            id="a stale run leaves its place to the next",
        ),
    ],
)
def test_which_runs_are_refused(runs, bounds, want):
    assert refused([waiting(*run) for run in runs], **bounds) == want


def test_teams_and_users_are_bounded_by_themselves():
    runs = [
        waiting("a", 9, team="vision", user="ann"),
        waiting("b", 8, team="vision", user="bob"),
        waiting("c", 7, team="speech", user="ann"),
        waiting("d", 6),
        waiting("e", 5),
    ]
    assert refused(runs, max_runs_per_team=1) == ["b"]
    assert refused(runs, max_runs_per_user=1) == ["c"]
    # What one bound refuses counts in no other: `c` is the second run of the pool.
    assert refused(runs, max_runs=2, max_runs_per_team=1) == ["e", "d", "b"]


def test_a_person_holds_a_run_for_as_long_as_they_want():
    assert refused([waiting("a", 999, hold=HELD)], expires_after="1m") == []


def test_the_message_has_the_number_and_the_remedy():
    runs = [waiting(name, age_s, team="vision") for name, age_s in (("a", 7300), ("b", 60))]
    (stale,) = refused_runs(runs, policy_of(expires_after="2h"), NOW)
    assert stale.message == (
        "Expired: Exceeded the maximum waiting time of 2h 00m (`waiting.expires_after`): "
        "the scheduled start was 2h 01m ago. Please submit the run again if it is still "
        "required."
    )
    (over,) = refused_runs(runs, policy_of(max_runs_per_team=1), NOW)
    assert over.message == (
        "QueueFull: Refused: the limit of 1 pending run for team "
        "vision has been reached (`waiting.max_runs_per_team`). Please submit the run again "
        "once fewer runs are waiting."
    )


RUNS = st.lists(
    st.builds(
        lambda age_s, created_s, team, user, has_begun: (age_s, created_s, team, user, has_begun),
        st.integers(0, 30),
        st.integers(0, 30),
        st.sampled_from([None, "vision", "speech"]),
        st.sampled_from([None, "ann", "bob"]),
        st.booleans(),
    ),
    max_size=12,
)
BOUNDS = st.builds(
    WaitingPolicy,
    max_runs=st.none() | st.integers(1, 6),
    max_runs_per_team=st.none() | st.integers(1, 4),
    max_runs_per_user=st.none() | st.integers(1, 4),
    expires_after=st.none() | st.integers(1, 25),
)


def made(rows):
    return [
        waiting(str(number), age_s, created_s, has_begun, team=team, user=user)
        for number, (age_s, created_s, team, user, has_begun) in enumerate(rows)
    ]


def over(runs, policy):
    """Is a bound passed by these runs? By counting, without an order."""
    new = [run.workload for run in runs if not run.has_begun]
    counts = [(policy.max_runs, len(new))]
    for team in ("vision", "speech"):
        counts.append((policy.max_runs_per_team, sum(w.team == team for w in new)))
    for user in ("ann", "bob"):
        counts.append((policy.max_runs_per_user, sum(w.user == user for w in new)))
    return any(limit is not None and number > limit for limit, number in counts)


@given(RUNS, BOUNDS, st.randoms(use_true_random=False))
def test_the_bounds_hold_for_all_runs_and_refuse_no_more_than_they_must(rows, policy, random):
    runs = made(rows)
    found = refused_runs(runs, policy, NOW)
    gone = {run.workload_id for run in found}
    left = [run for run in runs if run.workload.workload_id not in gone]

    assert not any(run.has_begun for run in runs if run.workload.workload_id in gone)
    assert not over(left, policy)
    for why in found:
        refused_run = next(run for run in runs if run.workload.workload_id == why.workload_id)
        earlier = [run for run in left if run.place < refused_run.place]
        is_stale = policy.expires_after_s is not None and (
            NOW - refused_run.workload.submitted_at > timedelta(seconds=policy.expires_after_s)
        )
        assert is_stale or over([*earlier, refused_run], policy)
    random.shuffle(runs)
    assert refused_runs(runs, policy, NOW) == found


@given(RUNS, RUNS, BOUNDS, st.data())
def test_what_may_wait_once_is_refused_by_no_later_run(rows, more, policy, data):
    """Some have started or were cancelled since, and others were submitted."""
    policy = policy.model_copy(update={"expires_after_s": None})
    runs = made(rows)
    gone = {run.workload_id for run in refused_runs(runs, policy, NOW)}
    kept = [run for run in runs if run.workload.workload_id not in gone]
    stay = [run for run in kept if data.draw(st.booleans())]
    later = [
        waiting(f"later {number}", age_s, -1, has_begun, team=team, user=user)
        for number, (age_s, _, team, user, has_begun) in enumerate(more)
    ]

    found = {run.workload_id for run in refused_runs([*stay, *later], policy, NOW)}

    assert not found & {run.workload.workload_id for run in stay}


@pytest.mark.parametrize(
    ("waiting_section", "want"),
    [
        pytest.param({"max_runs": 0}, "waiting.max_runs", id="zero"),
        pytest.param({"max_runs_per_team": -1}, "waiting.max_runs_per_team", id="negative"),
        pytest.param({"expires_after": "0s"}, "waiting.expires_after", id="no time at all"),
        pytest.param({"max_run": 5}, "max_runs", id="a misspelling names the nearest key"),
        pytest.param(
            {"max_runs": 5, "max_runs_per_user": 6}, "at most 5", id="a bound without effect"
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(waiting_section, want):
    with pytest.raises(InvalidInput, match=want):
        make_policy(waiting=waiting_section)
