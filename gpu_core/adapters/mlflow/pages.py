"""Pages of MLflow's UI, for links."""

from mlflow import MlflowClient

from gpu_core.decisions.costs.mlflow.mlflow_access import MlflowAccess
from gpu_core.decisions.costs.mlflow.mlflow_views import MlflowPages


def pages_of(client: MlflowClient, access: MlflowAccess, run_id: str) -> MlflowPages | None:
    """The pages of this MLflow run; None: MLflow has no page that a browser can open.

    Raises:
        MlflowException: MLflow cannot be reached, or refuses.
    """
    if access.pages_uri is None:
        return None
    experiment_id = client.get_run(run_id).info.experiment_id
    return MlflowPages.of(access.pages_uri, experiment_id, run_id)
