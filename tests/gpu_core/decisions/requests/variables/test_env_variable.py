"""Which environment a run has whose levels are of two forms."""

import pytest

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.requests.variables.env_variable import env_of_process, env_of_run

LATER = "{{ prefect.variables.env }}"
SECRET = {"name": "K", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


def template(default=None, base="{{ env }}"):
    variables = {"properties": {"env": {} if default is None else {"default": default}}}
    return {"job_configuration": {"env": base}, "variables": variables}


@pytest.mark.parametrize(
    ("pool", "of_deployment", "of_run"),
    [
        pytest.param(template(), {}, {}, id="none"),
        pytest.param(template({"A": "1"}), {"env": {"B": "1"}}, {"env": {}}, id="mappings"),
        pytest.param(template(), {"env": LATER}, {}, id="a variable of Prefect"),
        pytest.param(template(), {"env": LATER}, {"env": {"A": "1"}}, id="the run's instead of it"),
        pytest.param({}, {"env": {}}, {}, id="no template"),
    ],
)
def test_what_prefect_merges_is_left_to_it(pool, of_deployment, of_run):
    assert env_of_run(pool, of_deployment, of_run) is None


def test_the_templates_own_mapping_counts_least():
    pool = template({"A": "2", "B": "2"}, {"A": "1", "C": "1"})
    found = env_of_run(pool, {"env": [{"name": "B", "value": "3"}, SECRET]}, {})
    assert found == [
        {"name": "A", "value": "2"},
        {"name": "C", "value": "1"},
        {"name": "B", "value": "3"},
        SECRET,
    ]


@pytest.mark.parametrize(
    ("env", "want"),
    [
        pytest.param(3, "env is no environment .got 'int'.*a list of items", id="a number"),
        pytest.param("A=1", "env is no environment .got 'str'", id="text"),
        pytest.param([{"value": "1"}], r"env\[0\] has no name", id="an item without a name"),
        pytest.param(["A=1"], r"env\[0\] has no name", id="an item that is text"),
        pytest.param([{"name": ""}], r"env\[0\] has no name", id="an empty name"),
    ],
)
def test_what_is_no_environment_is_refused(env, want):
    with pytest.raises(InvalidInput, match=want):
        env_of_run(template(), {"env": {"A": "1"}}, {"env": env})


def test_text_over_a_mapping_is_refused():
    """Prefect would fail at the start with the position of a character."""
    with pytest.raises(InvalidInput, match="env is no environment"):
        env_of_run(template(), {"env": {"A": "1"}}, {"env": LATER})


def test_a_process_has_no_variable_from_a_secret():
    with pytest.raises(InvalidInput, match=r"env\.K uses valueFrom.*gpu-process"):
        env_of_process([{"name": "A", "value": "1"}, SECRET])
    assert env_of_process([{"name": "A", "value": "1"}, {"name": "B"}]) == {"A": "1", "B": None}
