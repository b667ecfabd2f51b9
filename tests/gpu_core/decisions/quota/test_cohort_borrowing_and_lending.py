"""What a tree of quotas promises: no team over its limit, each team's own at once."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.cluster import Flavor
from gpu_core.decisions.quota.cohort_borrowing_and_lending import QuotaTree, QuotaUsage
from gpu_core.testing.builders.quotas import (
    A100,
    BUCKET,
    make_quotas,
    make_tree,
)

GPU = 1000
TEAMS = ("t0", "t1", "t2", "t3", "nobody", None)

steps = st.lists(st.tuples(st.sampled_from(TEAMS), st.integers(1, 5)), max_size=20)


@st.composite
def hybrid_sections(draw):
    """Up to four teams in up to three cohorts, with limits or without."""
    cohorts = {}
    for i in range(draw(st.integers(0, 3))):
        above = draw(st.sampled_from([None, *cohorts]))
        cohorts[f"c{i}"] = draw(quotas(is_team=False)) | ({"parent": above} if above else {})
    teams = {}
    for i in range(draw(st.integers(1, 4))):
        above = draw(st.sampled_from([None, *cohorts]))
        teams[f"t{i}"] = draw(quotas(is_team=True)) | ({"cohort": above} if above else {})
    return {
        "teams": teams,
        "cohorts": cohorts,
        "unlisted": draw(st.sampled_from(["shared", "refused"])),
    }


@st.composite
def quotas(draw, is_team):
    limits = st.one_of(st.none(), st.integers(0, 4))
    nominal = draw(limits)
    lending = draw(limits)
    if is_team and nominal is not None and lending is not None:
        lending = min(lending, nominal)
    values = {
        "nominal_quota": nominal,
        "lending_limit": lending,
        "borrowing_limit": draw(limits),
    }
    limited = {k: {BUCKET: gpus} for k, gpus in values.items() if gpus is not None}
    return limited | {"weight": draw(st.sampled_from([1, 2, 0.5]))}


@st.composite
def used_trees(draw):
    """A tree, and usage that came about by taking only what was available."""
    sections = draw(hybrid_sections())
    tree = make_tree(draw(st.integers(0, 12)), **sections)
    usage = QuotaUsage(tree)
    for team, gpus in draw(steps):
        milli = min(gpus * GPU, usage.available(team, BUCKET))
        usage.allocate(team, BUCKET, milli)
    return tree, usage


def held(usage):
    """What all teams hold together."""
    return sum(usage.held(team, BUCKET) for team in TEAMS)


def state(usage):
    """Everything that can be asked."""
    return [
        (usage.held(t, BUCKET), usage.available(t, BUCKET), usage.borrowers(t, BUCKET))
        for t in TEAMS
    ]


@pytest.mark.parametrize(
    ("sections", "want_gpus"),
    [
        pytest.param(
            {"strategy": "static", "teams": {"t0": {}, "t1": {}}},
            {"t0": 5, "t1": 5, None: 0},
            id="static: halves, nothing is left over",
        ),
        pytest.param(
            {"strategy": "static", "teams": {"t0": {"nominal_quota": {"*": 2}}}},
            {"t0": 2, "nobody": 8},
            id="static: unlisted teams have the rest",
        ),
        pytest.param(
            {"strategy": "static", "teams": {"t0": {"weight": 2}, "t1": {}}},
            {"t0": 7, "t1": 3},
            id="static: whole GPUs, the odd one to the larger fraction",
        ),
        pytest.param(
            {"strategy": "dynamic", "teams": {"t0": {}, "t1": {"borrowing_limit": {"*": 4}}}},
            {"t0": 10, "t1": 4, None: 10},
            id="dynamic: everything to the team that asks, within its limit",
        ),
        pytest.param(
            {"teams": {"t0": {}, "t1": {"lending_limit": {"*": 0}}}},
            {"t0": 9, "t1": 10, "nobody": 9},
            id="hybrid: 3 of 10 reserved, what t1 does not lend is only t1's",
        ),
        pytest.param(
            {"unlisted": "refused", "teams": {"t0": {}}},
            {"t0": 10, "nobody": 0, None: 0},
            id="unlisted teams refused",
        ),
        pytest.param(
            {
                "cohorts": {"c": {"nominal_quota": {"*": 4}, "lending_limit": {"*": 1}}},
                "teams": {"t0": {"cohort": "c", "nominal_quota": {"*": 2}}, "t1": {}},
            },
            {"t0": 10, "t1": 5},
            id="a cohort lends 1 of its 6",
        ),
        pytest.param(
            {
                "cohorts": {"c": {"borrowing_limit": {"*": 1}}},
                "teams": {"t0": {"cohort": "c", "nominal_quota": {"*": 2}}},
            },
            {"t0": 3},
            id="a cohort's borrowing limit holds for its teams",
        ),
    ],
)
def test_most_ever(sections, want_gpus):
    """What a team could have in an empty cluster of 10 GPUs."""
    usage = QuotaUsage(make_tree(10, **sections))
    assert {t: usage.most_ever(t, BUCKET) / GPU for t in want_gpus} == want_gpus


def test_what_is_lent_comes_back_from_its_borrower():
    """Within cohorts first; a cohort that keeps to its quota is left alone."""
    tree = make_tree(
        12,
        cohorts={"red": {"nominal_quota": {"*": 2}}, "blue": {}},
        teams={
            "r0": {"cohort": "red", "nominal_quota": {"*": 2}},
            "r1": {"cohort": "red", "nominal_quota": {"*": 2}},
            "b0": {"cohort": "blue", "nominal_quota": {"*": 4}},
            "b1": {"cohort": "blue", "nominal_quota": {"*": 2}},
        },
    )
    usage = QuotaUsage(tree)
    usage.allocate("r0", BUCKET, 6 * GPU)
    assert usage.borrowed("r0", BUCKET) == 4 * GPU
    assert usage.borrowers("r1", BUCKET) == ("r0",)
    assert usage.borrowers("b0", BUCKET) == ()
    usage.allocate("b1", BUCKET, 6 * GPU)
    assert (usage.available("r1", BUCKET), usage.available("b0", BUCKET)) == (0, 0)
    assert usage.borrowers("b0", BUCKET) == ("b1",)
    usage.release("r0", BUCKET, 3 * GPU)
    usage.allocate(None, BUCKET, 3 * GPU)
    assert usage.borrowers("r1", BUCKET) == (None, "r0")
    assert usage.nominal_left("r1", BUCKET) == 2 * GPU
    assert usage.nominal_left("r1", BUCKET) == 2 * GPU


def test_a_gpu_counts_under_the_most_specific_key_that_is_named():
    """A GPU type goes before a capacity type."""
    quota = {"*": 1, "a100-80gb": 2, "*/spot": 3, "t4/spot": 4}
    capacity = {A100: 8 * GPU, Flavor("a100-80gb", "spot"): GPU, Flavor("l4", "spot"): 5 * GPU}
    tree = QuotaTree(make_quotas(teams={"t0": {"nominal_quota": quota}}), capacity)
    assert tree.bucket(A100) == tree.bucket(Flavor("a100-80gb", "spot")) == "a100-80gb"
    assert tree.bucket(Flavor("t4", "spot")) == "t4/spot"
    assert tree.bucket(Flavor("l4", "spot")) == "*/spot"
    assert tree.bucket(Flavor("t4", "on-demand")) == "*"
    assert tree.most_ever("nobody", "a100-80gb") == 9 * GPU
    assert tree.most_ever("nobody", "*/spot") == 5 * GPU
    assert tree.most_ever("t0", "t4/spot") == 4 * GPU, "a promise outlives its nodes"


def test_who_holds_more_than_it_may_is_recorded_and_gets_nothing_more():
    """As after a change of the policy: no negative numbers, no refusal of facts."""
    usage = QuotaUsage(make_tree(4, unlisted="refused", teams={"t0": {}}))
    usage.allocate("nobody", BUCKET, 6 * GPU)
    assert usage.available("t0", BUCKET) == 0
    assert usage.borrowers("t0", BUCKET) == ("nobody",)
    usage.release("nobody", BUCKET, 6 * GPU)
    assert usage.available("t0", BUCKET) == 4 * GPU


@given(used_trees())
def test_no_team_exceeds_quota_and_borrowing_limit(used):
    """Neither a team, nor a cohort, nor all together."""
    tree, usage = used
    for team in TEAMS:
        leaf = tree.path(team, BUCKET)[0]
        assert usage.borrowed(team, BUCKET) == max(0, usage.held(team, BUCKET) - leaf.quota_milli)
        if leaf.borrowing_limit_milli is not None:
            assert usage.borrowed(team, BUCKET) <= leaf.borrowing_limit_milli
    members = {}
    for team in TEAMS:
        for node in tree.path(team, BUCKET)[1:]:
            members.setdefault(node, set()).add(team)
    for node, teams in members.items():
        if node.most_milli is not None:
            unlent = sum(_unlent_below(tree, t, node) for t in teams)
            assert sum(usage.held(t, BUCKET) for t in teams) <= node.most_milli + unlent


def _unlent_below(tree, team, node):
    path = tree.path(team, BUCKET)
    return sum(below.unlent_milli for below in path[: path.index(node)])


@given(used_trees())
def test_all_together_hold_no_more_than_there_is(used):
    """The root's quota and what is never lent."""
    tree, usage = used
    nodes = {node for team in TEAMS for node in tree.path(team, BUCKET)}
    root = tree.path(None, BUCKET)[-1]
    unlent_milli = sum(node.unlent_milli for node in nodes)
    assert held(usage) <= root.quota_milli + unlent_milli


@given(used_trees(), st.sampled_from(TEAMS))
def test_what_is_not_lent_is_there_at_once(used, team):
    """Whatever the others hold; the team's own limits are wider than its quota."""
    tree, usage = used
    leaf = tree.path(team, BUCKET)[0]
    left_milli = leaf.unlent_milli - usage.held(team, BUCKET)
    assert usage.available(team, BUCKET) >= left_milli or not tree.has_quota(team)


@given(used_trees(), st.sampled_from(TEAMS))
def test_the_nominal_quota_comes_back_from_its_borrowers(used, team):
    """Taking back from the borrowers alone is enough, and each of them has something of it."""
    tree, usage = used
    wanted_milli = usage.nominal_left(team, BUCKET)
    while tree.has_quota(team) and usage.available(team, BUCKET) < wanted_milli:
        borrowers = usage.borrowers(team, BUCKET)
        assert borrowers
        usage.release(borrowers[0], BUCKET, GPU // 4)
        assert usage.borrowed(borrowers[0], BUCKET) >= 0


@given(used_trees(), st.sampled_from(TEAMS), st.integers(0, 20))
def test_give_undoes_take(used, team, gpus):
    """Also beyond every limit."""
    _, usage = used
    before = state(usage)
    copy = usage.copy()
    usage.allocate(team, BUCKET, gpus * GPU)
    assert state(copy) == before
    usage.release(team, BUCKET, gpus * GPU)
    assert state(usage) == before


@given(used_trees(), st.randoms(use_true_random=False))
def test_the_order_of_changes_does_not_matter(used, rng):
    """Usage is a function of what each team holds."""
    tree, usage = used
    holdings = [(t, GPU // 2) for t in TEAMS for _ in range(2 * usage.held(t, BUCKET) // GPU)]
    rng.shuffle(holdings)
    other = QuotaUsage(tree)
    for team, milli in holdings:
        other.allocate(team, BUCKET, milli)
    assert state(other) == state(usage)


@given(
    hybrid_sections(),
    st.integers(0, 8),
    st.lists(st.tuples(st.sampled_from(TEAMS), st.integers(0, 5)), max_size=12),
)
def test_without_borrowing_each_other_team_keeps_its_nominal_quota(sections, gpus, holdings):
    """After each change, and for all teams; what a team holds may be more than it may have."""
    tree = make_tree(gpus, **sections)
    usage = QuotaUsage(tree)
    for team, many in holdings:
        change_milli = many * GPU - usage.held(team, BUCKET)
        if change_milli < 0:
            usage.release(team, BUCKET, -change_milli)
        else:
            usage.allocate(team, BUCKET, change_milli)
        before = state(usage)
        assert {t: usage.available_unborrowed(t, BUCKET) for t in TEAMS} == {
            t: _with_own_alone_borrowing(tree, usage, t).available(t, BUCKET) for t in TEAMS
        }
        assert state(usage) == before


def _with_own_alone_borrowing(tree, usage, team):
    """A tree filled anew: the others hold what is within their nominal quota."""
    filled = QuotaUsage(tree)
    for other in TEAMS:
        borrowed = 0 if other == team else usage.borrowed(other, BUCKET)
        filled.allocate(other, BUCKET, usage.held(other, BUCKET) - borrowed)
    return filled


@given(hybrid_sections(), st.integers(0, 8), st.lists(st.integers(0, 4), min_size=6, max_size=6))
def test_available_is_what_the_rules_allow(sections, gpus, holdings):
    """Against the rules themselves, tried out GPU by GPU."""
    tree = make_tree(gpus, **sections)
    usage = QuotaUsage(tree)
    wanted = {}
    for team, many in zip(TEAMS, holdings, strict=True):
        milli = min(many * GPU, usage.available(team, BUCKET))
        usage.allocate(team, BUCKET, milli)
        wanted[team] = milli
    for team in TEAMS:
        if not tree.has_quota(team):
            assert usage.available(team, BUCKET) == 0
            continue
        more = next(
            n
            for n in itertools.count(1)
            if not _is_allowed(tree, wanted | {team: wanted[team] + n * GPU})
        )
        assert usage.available(team, BUCKET) == (more - 1) * GPU


def _is_allowed(tree, holdings):
    """May these be held together? A node uses of its parent's what is beyond its unlent part."""
    members, nodes = {}, {}
    for team in holdings:
        for node, above in itertools.pairwise(tree.path(team, BUCKET)):
            members.setdefault(above.name, set()).add(node.name)
            nodes |= {node.name: node, above.name: above}
    held_at = {tree.path(team, BUCKET)[0].name: milli for team, milli in holdings.items()}

    def used_at(name):
        from_above = (used_at(m) - nodes[m].unlent_milli for m in members.get(name, ()))
        return held_at.get(name, 0) + sum(max(0, milli) for milli in from_above)

    most = {n: node.quota_milli if n == "root" else node.most_milli for n, node in nodes.items()}
    return all(milli is None or used_at(name) <= milli for name, milli in most.items())
