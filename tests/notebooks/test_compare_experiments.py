"""The notebook runs as it is in the repository, on real trainings and on its generated data."""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nbformat
import pytest
from mlflow import MlflowClient
from nbclient import NotebookClient
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.mlflow.comparison import read_comparison
from gpu_core.adapters.mlflow.cost import cost_status, log_run_cost
from gpu_core.decisions.costs.usage.usage_cost import run_cost
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import at, make_attempt, make_run
from tests.support.mlflow_databases import new_mlflow_database

_ROOT = Path(__file__).parents[2]
_NOTEBOOK = _ROOT / "notebooks" / "compare_experiments.ipynb"
_KERNEL = "tests-own-interpreter"


@pytest.fixture(scope="module")
def tracking_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """MLflow with two experiments of real trainings, their costs, and one without a price."""
    uri = new_mlflow_database(tmp_path_factory.mktemp("mlflow"))
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
    assert read_comparison(MlflowClient(new_mlflow_database(tmp_path)), "accuracy").empty


def test_the_notebook_is_kept_with_two_plots_and_nothing_of_one_machine() -> None:
    """Its readers see what it shows; warnings and paths of the machine that ran it are left out."""
    outputs = _outputs(nbformat.read(_NOTEBOOK, as_version=4))
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
    assert not [output for output in outputs if output.output_type in {"stream", "error"}]


@pytest.fixture
def ledger_url(tmp_path: Path) -> str:
    """A ledger with an attempt on each of two days of the last week."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    now = datetime.now(UTC)
    attempts = [
        make_attempt(
            "run", number, admitted_at=now - timedelta(days=number, hours=1),
            released_at=now - timedelta(days=number), end_reason=EndReason.COMPLETED,
        )
        for number in (1, 2)
    ]  # fmt: skip
    with Ledger.open(url) as ledger:
        ledger.import_records([(make_run("run"), attempts)])
    return url


@pytest.mark.parametrize("has_data", [True, False], ids=["own data", "generated data"])
def test_the_notebook_shows_two_plots_and_what_a_point_costs(
    tracking_uri: str,
    ledger_url: str,
    has_data: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _own_kernel(tmp_path, monkeypatch)
    for name, value in (("MLFLOW_TRACKING_URI", tracking_uri), ("PREFECT_GPU_LEDGER", ledger_url)):
        monkeypatch.setenv(name, value) if has_data else monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(_ROOT))
    notebook = nbformat.read(_NOTEBOOK, as_version=4)

    NotebookClient(
        notebook,
        kernel_name=_KERNEL,
        timeout=600,
        resources={"metadata": {"path": str(_NOTEBOOK.parent)}},
    ).execute()

    shown = [output.data for output in _outputs(notebook) if "data" in output]
    assert sum("image/png" in data for data in shown) == 2
    (summary,) = (data for data in shown if "usd_per_point" in data["text/plain"])
    want_experiment = "strong" if has_data else "generated-ranking"
    assert want_experiment in summary["text/plain"]
    warnings = [output.text for output in _outputs(notebook) if output.get("name") == "stderr"]
    # MLflow says that it makes the tables of a new database.
    assert [text for text in warnings if "INFO mlflow.store" not in text] == []


def _outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


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
