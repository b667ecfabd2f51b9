"""Files of YAML that cannot be used: one sentence with the line, at once, and never a traceback."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.adapters.files.policy_file import load_policy
from gpu_core.adapters.files.yaml_file import MOST_BYTES, MOST_LEVELS, read_yaml
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import known_names
from gpu_core.decisions.policy.policy import Policy, parse_policy

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param("a: 2026-13-45", ":1 has a value that cannot be: month must be", id="date"),
        pytest.param("a: 0000-01-01", "year 0 is out of range (got '0000-01-01')", id="year 0"),
        pytest.param(f"x: 1\na: {'9' * 5000}", ":2 has a value that cannot be", id="5,000 digits"),
        pytest.param("a: &a\n  b: *a", ":1 has an alias of itself", id="a cycle"),
        pytest.param("x: 1\ny: a\0b", ":2 has a character that YAML does not allow", id="NUL"),
        pytest.param("[" * 2000, f"nested too deeply. Allowed: {MOST_LEVELS} levels", id="lists"),
        pytest.param("a: " + "{a: " * 1500, "nested too deeply", id="mappings"),
        pytest.param(BOMB, "holds too much, with its aliases followed", id="an alias bomb"),
        pytest.param("x: " + "a" * MOST_BYTES, "too large for a policy file", id="megabytes"),
        pytest.param("a: 1\n---\nb: 2", "is not valid YAML", id="two documents"),
        pytest.param("a: *nope", "found undefined alias", id="an unknown alias"),
        pytest.param("? [a, b]\n: 1", ":1 has a key that is not text", id="a list as a key"),
        pytest.param("a: 1\nb: 2\na: 3", ":3: a comes twice", id="a key twice"),
        pytest.param("x: !!python/object/apply:os.system ['ls']", "is not valid YAML", id="code"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(tmp_path: Path, content: str, want: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(content)
    with pytest.raises(InvalidInput) as caught:
        read_yaml(path, "policy file")
    assert want in str(caught.value)


def test_other_encodings_are_named(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes("version: 1".encode("utf-16"))
    with pytest.raises(InvalidInput, match="Name a readable policy file in UTF-8"):
        read_yaml(path, "policy file")


def test_a_byte_order_mark_and_aliases_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("\ufeffa: &a {x: 1}\nb: *a\n", encoding="utf-8")
    assert read_yaml(path, "policy file")[0] == {"a": {"x": 1}, "b": {"x": 1}}


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        *((each, "is not a known version") for each in ("true", "'1'", "1.0", "2")),
        ("null", "has no value"),
    ],
)
def test_a_version_is_the_number_1(tmp_path: Path, version: str, problem: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(f"version: {version}\n")
    with pytest.raises(InvalidInput, match=f"version {problem}"):
        load_policy(path)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["keys", "strategy", "usd", "gpu_type", "count", "enabled", "default", "teams",
                 "period", "parent", "nominal", "spot", "x", "zones", "start", "end"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)  # fmt: skip


@given(sections=st.dictionaries(st.sampled_from(known_names(Policy)), plain, max_size=4))
def test_no_error_is_in_the_words_of_a_library(sections: dict[str, object]) -> None:
    said = _said_of({"version": 1} | sections)
    assert "Input should" not in said
    assert "pydantic" not in said


def _said_of(policy: object) -> str:
    try:
        parse_policy(policy)
    except InvalidInput as error:
        return str(error)
    return ""
