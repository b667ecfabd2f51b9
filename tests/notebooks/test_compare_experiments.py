"""The notebook runs as it is in the repository, on trainings that really happened."""

import json
import sys
from pathlib import Path

import nbformat
import pytest
from mlflow import MlflowClient
from nbclient import NotebookClient
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from gpu_core.adapters.mlflow.comparison import read_comparison
from gpu_core.adapters.mlflow.cost import cost_status, log_run_cost
from gpu_core.decisions.costs.usage_cost import run_cost
from gpu_core.decisions.model.attempts import EndReason
from tests.gpu_core.accounting_builders import at, make_attempt, make_run

_ROOT = Path(__file__).parents[2]
_NOTEBOOK = _ROOT / "notebooks" / "compare_experiments.ipynb"
_KERNEL = "tests-own-interpreter"


@pytest.fixture(scope="module")
def tracking_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """MLflow with two experiments of real trainings, their costs, and one without a price."""
    uri = f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"
    client = MlflowClient(uri)
    for experiment, strengths in (("weak", (0.001, 0.01)), ("strong", (0.1, 1.0))):
        for index, strength in enumerate(strengths):
            _train(client, experiment, f"{experiment}-{index}", strength, hours=index + 1)
    _train(client, "strong", "strong-unpriced", 1.0, hours=1, price_micro_usd_per_gpu_hour=None)
    return uri


def _train(
    client: MlflowClient, experiment: str, name: str, strength: float, hours: int, **price: None
) -> None:
    images, labels = load_digits(return_X_y=True)
    split = train_test_split(images / 16.0, labels, test_size=0.5, random_state=0)
    model = LogisticRegression(C=strength, max_iter=300).fit(split[0], split[2])
    attempts = (
        make_attempt(
            name, 1, released_at=at(hours), end_reason=EndReason.PREEMPTED, checkpoint="c",
            checkpointed_at=at(hours - 0.5), **price,
        ),
        make_attempt(
            name, 2, admitted_at=at(10), released_at=at(11), end_reason=EndReason.COMPLETED,
            restored_from="c", **price,
        ),
    )  # fmt: skip
    record = make_run(name, name=name, experiment=experiment, final_state="Completed")
    cost = run_cost(record, attempts, at(12))
    run_id = log_run_cost(client, record, cost, status=cost_status(cost), price_book="tests")
    client.log_metric(run_id, "accuracy", float(model.score(split[1], split[3])))


def test_runs_are_read_back_with_what_they_cost(tracking_uri: str) -> None:
    table = read_comparison(MlflowClient(tracking_uri), "accuracy").set_index("run")
    assert dict(table["total_usd"].dropna()) == {
        "weak-0": 2.0, "weak-1": 3.0, "strong-0": 2.0, "strong-1": 3.0,
    }  # fmt: skip
    assert table.loc["strong-unpriced", "status"] == "unpriced"
    assert table.loc["strong-1", "quality"] > table.loc["weak-0", "quality"] > 0.5
    assert set(table["retry_waste_usd"].dropna()) == {0.5}


def test_an_mlflow_without_costs_is_an_empty_table(tmp_path: Path) -> None:
    assert read_comparison(MlflowClient(f"sqlite:///{tmp_path}/mlflow.db"), "accuracy").empty


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = nbformat.read(_NOTEBOOK, as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert code
    assert all(not cell.outputs and cell.execution_count is None for cell in code)


def test_the_notebook_shows_two_plots_and_what_a_point_costs(
    tracking_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _own_kernel(tmp_path, monkeypatch)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    monkeypatch.setenv("PYTHONPATH", str(_ROOT))
    notebook = nbformat.read(_NOTEBOOK, as_version=4)

    NotebookClient(
        notebook, kernel_name=_KERNEL, timeout=120, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()

    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = [output.data for output in outputs if "data" in output]
    assert sum("image/png" in data for data in shown) == 2
    assert "usd_per_point" in shown[-1]["text/plain"]
    assert not [output.text for output in outputs if output.get("name") == "stderr"]


def _own_kernel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of the interpreter that runs the tests, whatever Jupyter knows on this machine."""
    kernel = folder / "jupyter" / "kernels" / _KERNEL
    kernel.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    specification = {"argv": argv, "display_name": "tests", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(specification))
    monkeypatch.setenv("JUPYTER_PATH", str(folder / "jupyter"))
    for variable in ("IPYTHONDIR", "MPLCONFIGDIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(folder / variable.lower()))
