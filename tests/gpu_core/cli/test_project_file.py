"""A prefect.yaml that Prefect would take in silence is refused with its field."""

from pathlib import Path

import pytest

from gpu_core.cli.project_file import check_project_file
from gpu_core.decisions.errors import InvalidInput
from gpu_core.decisions.policy import Policy

POLICY = Policy(version=1)
DEPLOYMENT = """
deployments:
  - name: train
    entrypoint: flows/train.py:train
    work_pool: {{name: {pool}, work_queue_name: {queue}, job_variables: {variables}}}
"""


def written(tmp_path: Path, text: str) -> Path:
    """A prefect.yaml with this text."""
    path = tmp_path / "prefect.yaml"
    path.write_text(text)
    return path


def deployment(pool: str = "gpu", queue: str = "low", variables: str = "{}") -> str:
    """A file with one deployment."""
    return DEPLOYMENT.format(pool=pool, queue=queue, variables=variables)


@pytest.mark.parametrize(
    ("text", "want_parts"),
    [
        pytest.param(
            deployment(queue="hihg"),
            ["deployments[0] 'train' work_pool.work_queue_name", "'hihg'", "'high'"],
            id="a misspelt queue, which Prefect would create",
        ),
        pytest.param(
            deployment(variables="{gpu_cuont: 2}"),
            ["work_pool.job_variables.gpu_cuont", "'gpu_count'"],
            id="a misspelt job variable, which Prefect would ignore",
        ),
        pytest.param(
            deployment(variables="{gpu_count: many}"),
            ["work_pool.job_variables.gpu_count", "'many'"],
            id="a job variable of the wrong type",
        ),
        pytest.param("deployments: 3", ["prefect.yaml", "list of deployments"], id="no list"),
        pytest.param("deployments: [", ["prefect.yaml", "not YAML"], id="no YAML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, want_parts: list[str]) -> None:
    """The message has the file, the deployment, the field, what came and what was meant."""
    with pytest.raises(InvalidInput) as refused:
        check_project_file(written(tmp_path, text), "gpu", POLICY)
    for part in want_parts:
        assert part in str(refused.value)


def test_a_right_file_gives_the_names_of_its_deployments(tmp_path: Path) -> None:
    """Prefect's own variables and the queue `default` are fine."""
    text = deployment(queue="default", variables="{env: {A: b}, gpu_count: 2, working_dir: /tmp}")
    assert check_project_file(written(tmp_path, text), "gpu", POLICY) == ["train"]


def test_deployments_on_other_pools_are_nobodys_business_here(tmp_path: Path) -> None:
    """Only what concerns the GPU pool is checked."""
    text = deployment(pool="cpu", queue="hihg", variables="{gpu_cuont: 2}")
    assert check_project_file(written(tmp_path, text), "gpu", POLICY) == ["train"]
