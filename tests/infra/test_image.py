"""What the images are built from and run as; `make image-check` builds and starts them."""

import re
import subprocess
from pathlib import Path

import pathspec
import pytest

ROOT = Path(__file__).parents[2]
IMAGES = ("Dockerfile", "flows.Dockerfile")
WORKER = "prefect-gpu"


def instructions(name):
    """The instructions of a Dockerfile: [(keyword, arguments)], continued lines joined."""
    text = (ROOT / "infra" / "image" / name).read_text(encoding="utf-8")
    lines = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]


def values(name, keyword):
    return [rest for found, rest in instructions(name) if found == keyword]


def sent():
    """Which rules say what goes to the builder."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return pathspec.PathSpec.from_lines("gitignore", lines)


def test_the_base_image_is_pinned_by_its_digest():
    (default,) = (rest for rest in values("Dockerfile", "ARG") if rest.startswith("PYTHON="))
    assert re.fullmatch(r"PYTHON=docker\.io/library/python:3\.\d+-\S+@sha256:[0-9a-f]{64}", default)
    assert {base.split()[0] for base in values("Dockerfile", "FROM")} == {"${PYTHON}"}


def test_the_image_of_flows_builds_on_the_workers():
    assert values("flows.Dockerfile", "ARG") == [f"WORKER={WORKER}"]
    assert values("flows.Dockerfile", "FROM") == ["${WORKER}"]


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_runs_as_a_number_that_is_not_root(name):
    """A kubelet checks runAsNonRoot by the number; a name it refuses."""
    user = values(name, "USER")[-1]
    assert re.fullmatch(r"[1-9]\d*:0", user), user


def test_the_entrypoint_is_where_prefects_own_image_has_it():
    (entrypoint,) = values("Dockerfile", "ENTRYPOINT")
    assert entrypoint == '["/usr/bin/tini", "-g", "--", "/opt/prefect/entrypoint.sh"]'
    assert "infra/image/entrypoint.sh /opt/prefect/entrypoint.sh" in values("Dockerfile", "COPY")


@pytest.mark.parametrize("name", IMAGES)
def test_all_that_is_copied_is_sent_to_the_builder(name):
    wanted = [rest.split()[:-1] for rest in values(name, "COPY") if not rest.startswith("--from")]
    tracked = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    rules = sent()
    for source in (path for paths in wanted for path in paths):
        below = [path for path in tracked if path == source or path.startswith(f"{source}/")]
        assert below, f"{source} is not in the repository"
        if source == "requirements":
            continue  # only the locks that a build reads
        assert [path for path in below if rules.match_file(path)] == []


def test_the_locks_that_a_build_reads_are_sent():
    run = " ".join(values("Dockerfile", "RUN"))
    locks = re.findall(r"-r (requirements/\S+)", run)
    assert len(locks) == 2
    assert [path for path in locks if sent().match_file(path)] == []


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".venv/bin/python",
        ".quickstart/prefect.db",
        ".env",
        "prefect.toml",
        "mlflow.db",
        "gpu_core/__pycache__/decide.cpython-311.pyc",
        "tests/conftest.py",
        "deployments/policy.yaml",
        "infra/helm/policy.yaml",
    ],
)
def test_nothing_else_is_sent_to_the_builder(path):
    assert sent().match_file(path)
