"""Pages of MLflow's UI, for links."""

from mlflow import MlflowClient

from gpu_core.decisions.costs.mlflow_access import MlflowAccess


def run_page(client: MlflowClient, access: MlflowAccess, run_id: str) -> str | None:
    """Where do people open this MLflow run? None: MLflow has no page that a browser can open.

    Raises:
        MlflowException: MLflow cannot be reached, or refuses.
    """
    if access.pages_uri is None:
        return None
    experiment = client.get_run(run_id).info.experiment_id
    return f"{access.pages_uri}/#/experiments/{experiment}/runs/{run_id}"
