"""How ours and the platform team's manifest become one."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.kubernetes.manifests.merge import cleaned, filled, overlaid


@pytest.mark.parametrize(
    ("base", "ours", "want_overlaid", "want_filled"),
    [
        pytest.param({"a": 1}, {"b": 2}, {"a": 1, "b": 2}, {"a": 1, "b": 2}, id="nothing shared"),
        pytest.param({"a": 1}, {"a": 2}, {"a": 2}, {"a": 1}, id="both say something"),
        pytest.param(
            {"a": {"b": 1, "c": 1}},
            {"a": {"b": 2}},
            {"a": {"b": 2, "c": 1}},
            {"a": {"b": 1, "c": 1}},
            id="mappings are merged inside",
        ),
        pytest.param(
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]},
            {"env": [{"name": "C", "value": "2"}, {"name": "A", "valueFrom": {}}]},
            {
                "env": [
                    {"name": "A", "valueFrom": {}},
                    {"name": "B", "value": "1"},
                    {"name": "C", "value": "2"},
                ]
            },
            {
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "value": "1"},
                    {"name": "C", "value": "2"},
                ]
            },
            id="variables by name, each of them whole",
        ),
        pytest.param(
            {"containers": [{"name": "main", "image": "a"}, {"name": "side"}]},
            {"containers": [{"name": "main", "image": "b", "tty": True}]},
            {"containers": [{"name": "main", "image": "b", "tty": True}, {"name": "side"}]},
            {"containers": [{"name": "main", "image": "a", "tty": True}, {"name": "side"}]},
            id="containers by name, merged inside",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            {"volumes": [{"name": "v", "hostPath": {"path": "/v"}}]},
            {"volumes": [{"name": "v", "hostPath": {"path": "/v"}}]},
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            id="a volume has one source",
        ),
        pytest.param(
            {"volumeMounts": [{"name": "a", "mountPath": "/m"}]},
            {"volumeMounts": [{"name": "b", "mountPath": "/m"}]},
            {"volumeMounts": [{"name": "b", "mountPath": "/m"}]},
            {"volumeMounts": [{"name": "a", "mountPath": "/m"}]},
            id="one volume at a path",
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Exists"}]},
            {"tolerations": [{"key": "a", "operator": "Equal", "value": "b"}]},
            {
                "tolerations": [
                    {"key": "a", "operator": "Exists"},
                    {"key": "a", "operator": "Equal", "value": "b"},
                ]
            },
            {
                "tolerations": [
                    {"key": "a", "operator": "Exists"},
                    {"key": "a", "operator": "Equal", "value": "b"},
                ]
            },
            id="both tolerations",
        ),
        pytest.param(
            {"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}, {"args": ["a"]}, id="other lists"
        ),
    ],
)  # fmt: skip
def test_both_directions(base, ours, want_overlaid, want_filled):
    before = deepcopy((base, ours))
    assert overlaid(base, ours) == want_overlaid
    assert filled(base, ours) == want_filled
    assert (base, ours) == before


def test_null_is_absent():
    found = cleaned({"a": None, "b": [None, {"c": None, "d": 0}], "e": ("f",)})
    assert found == {"b": [{"d": 0}], "e": ["f"]}


names = st.sampled_from("abc")
trees = st.recursive(
    st.dictionaries(names, st.integers(0, 2), max_size=3),
    lambda inner: st.dictionaries(names, inner | st.integers(0, 2), max_size=3),
    max_leaves=6,
)


@given(trees, trees)
def test_merging_twice_changes_nothing_more(base, ours):
    once = overlaid(base, ours)
    assert overlaid(once, ours) == once
    assert filled(filled(base, ours), ours) == filled(base, ours)
    assert overlaid(base, {}) == filled(base, {}) == base


@given(trees, trees)
def test_nobodys_keys_are_lost(base, ours):
    for found in (overlaid(base, ours), filled(base, ours)):
        assert found.keys() == base.keys() | ours.keys()
