"""Experiments by name, against a real MLflow on SQLite."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from mlflow import MlflowClient
from mlflow.entities import Experiment

from gpu_core.adapters.mlflow.experiment import experiment_id
from tests.support.mlflow_databases import new_mlflow_database

RUNS = 4


class LooksWithOthers(MlflowClient):
    """A client that looks for an experiment at the very moment when others look for it too."""

    def __init__(self, uri: str, barrier: Barrier) -> None:
        super().__init__(uri)
        self._barrier: Barrier | None = barrier

    def get_experiment_by_name(self, name: str) -> Experiment | None:
        """The experiment; the first look returns when all have looked."""
        found = super().get_experiment_by_name(name)
        barrier, self._barrier = self._barrier, None
        if barrier is not None:
            barrier.wait()
        return found


def test_runs_that_need_a_new_experiment_at_once_all_get_it(tmp_path: Path) -> None:
    """All find that there is none; one creates it; none fails."""
    uri = new_mlflow_database(tmp_path)
    MlflowClient(uri).search_experiments()  # the tables are there
    barrier = Barrier(RUNS)
    clients = [LooksWithOthers(uri, barrier) for _ in range(RUNS)]
    with ThreadPoolExecutor(RUNS) as pool:
        ids = set(pool.map(lambda client: experiment_id(client, "digits"), clients))

    named = [e.name for e in MlflowClient(uri).search_experiments()]
    assert len(ids) == 1
    assert sorted(named) == ["Default", "digits"]


def test_an_experiment_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    """The second asking gives the same id."""
    client = MlflowClient(new_mlflow_database(tmp_path))
    assert experiment_id(client, "own") == experiment_id(client, "own")
