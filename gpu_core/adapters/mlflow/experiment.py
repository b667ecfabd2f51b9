"""An MLflow experiment by its name, made where it is missing."""

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_ALREADY_EXISTS, ErrorCode

_ALREADY_EXISTS = ErrorCode.Name(RESOURCE_ALREADY_EXISTS)


def experiment_id(client: MlflowClient, name: str) -> str:
    """The id of the experiment of this name. It is created if there is none.

    Any number of runs may ask for the same new experiment at the same moment: one of them creates
    it, and all get its id. `mlflow.start_run` by itself fails in all but one of them.
    """
    known = client.get_experiment_by_name(name)
    if known is not None:
        return str(known.experiment_id)
    try:
        return str(client.create_experiment(name))
    except MlflowException as error:
        created_meanwhile = client.get_experiment_by_name(name)
        if error.error_code != _ALREADY_EXISTS or created_meanwhile is None:
            raise
        return str(created_meanwhile.experiment_id)
