"""The command line: exit codes, and one clear line where the input is wrong."""

import pytest

from gpu_core.cli.main import main


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    """`prefect-gpu --version` names the installed version."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("prefect-gpu 0.")


@pytest.mark.parametrize(
    "arguments", [["quickstrat"], ["setup", "--pol"]], ids=["misspelled", "no value"]
)
def test_wrong_arguments_exit_with_2(arguments: list[str]) -> None:
    """Wrong input is 2, also where the parser of arguments notices it."""
    assert main(arguments) == 2


def test_a_malformed_policy_stops_setup_before_it_changes_anything(
    tmp_path, monkeypatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one line on stderr names the file, the line, the key and the nearest known key."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\npreemptoin: {enabled: true}\n")
    # Nothing listens there: had anything been asked of the server, the error would be another one.
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")

    code = main(["setup", "--policy", str(policy)])

    assert code == 2
    error = capsys.readouterr().err
    assert f"{policy}:2: preemptoin" in error
    assert "'preemption'" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "value", "want"),
    [
        pytest.param("CAPACITY_TYPE", "spott", "Did you mean 'spot'?", id="a value"),
        pytest.param("STATE_DIRR", "/tmp/x", "GPU_STATE_DIR'?", id="a name"),
    ],
)
def test_set_up_refuses_the_settings_that_a_worker_refuses(monkeypatch, capsys, name, value, want):
    """Before the server is asked: the state folder of the blocks is one of them."""
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    monkeypatch.setenv(f"PREFECT_INTEGRATIONS_GPU_{name}", value)
    assert main(["setup"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"prefect-gpu setup: PREFECT_INTEGRATIONS_GPU_{name} is not ")
    assert want in error
