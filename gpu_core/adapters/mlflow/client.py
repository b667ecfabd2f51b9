"""A client of MLflow that logs in with credentials."""

import os

from mlflow import MlflowClient

from gpu_core.decisions.costs.mlflow.mlflow_access import CREDENTIAL_VARIABLES, MlflowAccess


def mlflow_client(access: MlflowAccess) -> MlflowClient:
    """A client for this server or database.

    MLflow takes credentials from the environment and nowhere else, at every request: they are set
    there, for this process. Without credentials of its own the client uses those that are there.
    """
    credentials = access.credentials()
    if credentials:
        for name in CREDENTIAL_VARIABLES:
            os.environ.pop(name, None)
        os.environ.update(credentials)
    return MlflowClient(access.client_uri)
