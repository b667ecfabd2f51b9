"""What runs inherit is a list; secrets of the worker are not in it."""

from pathlib import Path

import pytest

from gpu_core.decisions.requests.runs.run_environment import (
    INHERITED,
    inherited_environment,
    parse_variable_names,
    without_workers_own,
)

WORKERS = {
    "PREFECT_API_DATABASE_CONNECTION_URL": "postgresql+asyncpg://prefect:secret@db/prefect",
    "PREFECT_API_DATABASE_PASSWORD": "secret",
    "PREFECT_SERVER_API_AUTH_STRING": "admin:secret",
    "PREFECT_SERVER_DATABASE_CONNECTION_URL": "postgresql+asyncpg://prefect:secret@db/prefect",
    "PREFECT_INTEGRATIONS_GPU_LEDGER_URL": "postgresql://gpu:secret@db/ledger",
    "PREFECT_INTEGRATIONS_GPU_PASS_ENVIRONMENT": "WANDB_*",
    "PREFECT_WORKER_WEBSERVER_PORT": "8080",
}


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX"),
        *("LD_LIBRARY_PATH", "CUDA_HOME", "NCCL_DEBUG", "OMP_NUM_THREADS", "UV_CACHE_DIR"),
        *("https_proxy", "NO_PROXY", "SSL_CERT_FILE", "AWS_ACCESS_KEY_ID", "MLFLOW_TRACKING_URI"),
        *("PREFECT_PROFILE", "PREFECT_INTEGRATIONS_DBT_TARGET_PATH"),
    ],
)
def test_runs_inherit_what_they_need_to_work(name):
    assert inherited_environment({name: "value"}) == {name: "value"}


@pytest.mark.parametrize(
    "name", ["PGPASSWORD", "GITHUB_TOKEN", "HF_TOKEN", "WANDB_API_KEY", "PREFECT_REDIS_PASSWORD"]
)
def test_runs_inherit_nothing_else(name):
    assert inherited_environment({name: "secret"}) == {}


@pytest.mark.parametrize("passed", [(), ("*",), ("PREFECT_*",), tuple(WORKERS)])
def test_no_setting_lets_runs_inherit_what_is_the_servers_or_the_workers(passed):
    assert inherited_environment(WORKERS, passed) == {}


def test_an_operator_may_pass_on_more():
    environment = {"WANDB_API_KEY": "a", "WANDB_MODE": "b", "HF_TOKEN": "c", "HF_TOKENS": "d"}
    passed = parse_variable_names("WANDB_*, HF_TOKEN")
    assert set(inherited_environment(environment, passed)) == {
        "WANDB_API_KEY",
        "WANDB_MODE",
        "HF_TOKEN",
    }
    assert inherited_environment(environment, ("*",)) == environment


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", ()),
        (" A ,B*\nC ", ("A", "B*", "C")),
        (["A", "B"], ("A", "B")),
        ("*", ("*",)),
    ],
)
def test_names_are_read_as_people_write_them(text, want):
    assert parse_variable_names(text) == want


@pytest.mark.parametrize("text", ["A=1", "a b-c", "**", "*A", "1A"])
def test_what_is_no_name_is_refused_with_what_is_allowed(text):
    with pytest.raises(ValueError, match=r"is not a variable's name. Allowed: NAME, or PREFIX_\*"):
        parse_variable_names(text)


def test_settings_of_server_and_worker_are_left_out_and_all_else_stays():
    keys = {"PREFECT_API_KEY": "key", "PREFECT_API_URL": "http://prefect:4200/api"}
    assert without_workers_own({**WORKERS, **keys}) == keys


def test_the_documentation_has_the_same_list():
    text = Path("docs/secrets.md").read_text()
    for purpose, names in INHERITED.items():
        listed = ", ".join(f"`{name}`" for name in names)
        assert f"| {purpose} | {listed} |" in text
