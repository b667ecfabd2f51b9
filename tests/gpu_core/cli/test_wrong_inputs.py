"""Each wrong input of a newcomer gets its whole message, and the exit code of a mistake."""

import math
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_core.adapters.files.policy_file import load_policy
from gpu_core.cli.main import main
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.optimization.experiments.low_priority import InteractiveDemand
from tests.gpu_core.cli.wrong_inputs import COMMAND_LINES, JOB_VARIABLES, POLICY

PROJECT = """deployments:
  - name: train
    entrypoint: gpu_core.flows.train_digits.train_digits
    work_pool:
      name: gpu
      job_variables: {%s}
"""
_ERROR = re.compile(r"error invalid-input at (?:line \d+: )?(?:\S+ 'train' \S+?variables\.)?(.*)")


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def _errors(name: str, text: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The errors of `prefect-gpu check` for a file with this text, without their lines."""
    Path(name).write_text(text)
    assert main(["check", name]) == 1
    return "\n".join(_ERROR.findall(capsys.readouterr().out))


@pytest.mark.parametrize("case", POLICY)
def test_a_policy(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    typed, want_message = POLICY[case]
    assert _errors("policy.yaml", f"version: 1\n{typed}\n", capsys) == want_message


@pytest.mark.parametrize("case", JOB_VARIABLES)
def test_a_job_variable(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    typed, want_message = JOB_VARIABLES[case]
    assert _errors("prefect.yaml", PROJECT % typed, capsys) == want_message


@pytest.mark.parametrize("case", COMMAND_LINES)
def test_a_command_line(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    typed, want_message = COMMAND_LINES[case]
    assert main(shlex.split(typed)) == 2
    assert capsys.readouterr().err == f"{want_message}\n"


@pytest.mark.parametrize("case", POLICY)
def test_each_error_of_a_policy_has_a_line(case: str) -> None:
    Path("policy.yaml").write_text(f"version: 1\n{POLICY[case][0]}\n")
    with pytest.raises(InvalidInput, match=r"policy\.yaml:\d+: "):
        load_policy(Path("policy.yaml"))


@pytest.mark.parametrize(
    ("make", "want_message"),
    [
        pytest.param(
            lambda: InteractiveDemand(requests=5),
            "requests is out of range (got 5). Allowed: 100 to 1,000,000.",
            id="too few requests",
        ),
        pytest.param(
            lambda: InteractiveDemand(interactive_batch=3),
            "interactive_batch is not a measured batch size (got 3). Allowed: 1, 4, 8, 16, 32.",
            id="a batch that is not measured",
        ),
        pytest.param(
            lambda: InteractiveDemand(p99_limit_ms=math.nan),
            "p99_limit_ms is out of range (got nan). Allowed: more than 0.",
            id="a limit that is not a number",
        ),
    ],
)
def test_a_parameter_of_an_experiment(make: Callable[[], object], want_message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        make()
    assert str(caught.value) == want_message


@pytest.mark.parametrize(
    ("variable", "value", "command", "want"),
    [
        pytest.param(
            "PREFECT_GPU_LEDGER",
            "nope.db",
            ["cost", "report"],
            "ledger is not a file (got 'nope.db'). Name the ledger's file, or its address",
            id="a ledger that does not exist",
        ),
        pytest.param(
            "PREFECT_API_URL",
            "localhost:4200",
            ["queue"],
            "PREFECT_API_URL must start with http:// or https:// (got 'localhost:4200')",
            id="an address without its scheme",
        ),
    ],
)
def test_an_environment_variable(
    variable: str,
    value: str,
    command: list[str],
    want: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(variable, value)
    assert main(command) == 2
    assert want in capsys.readouterr().err
