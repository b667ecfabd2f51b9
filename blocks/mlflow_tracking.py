"""Where MLflow is, and who we are there."""

import os

from mlflow import MlflowClient
from prefect.blocks.core import Block
from pydantic import Field, HttpUrl, SecretStr, model_validator


class MLflowTracking(Block):
    """
    The MLflow tracking server to which the cost of runs is logged.

    Example:
        Get a client for the tracking server:
        ```python
        from blocks.mlflow_tracking import MLflowTracking

        mlflow_tracking = MLflowTracking.load("BLOCK_NAME")
        client = mlflow_tracking.client()
        ```
    """

    _block_type_name = "GPU MLflow Tracking"
    _block_type_slug = "gpu-mlflow-tracking"
    _documentation_url = HttpUrl("https://mlflow.org/docs/latest/ml/tracking/")

    tracking_uri: str = Field(
        min_length=1,
        description="The tracking server's address, or 'sqlite:////absolute/path/mlflow.db'.",
        examples=["http://mlflow:5000"],
    )
    username: str | None = Field(
        default=None, description="The user's name, where the server asks for one."
    )
    password: SecretStr | None = Field(
        default=None, description="The password that belongs to the user's name."
    )
    token: SecretStr | None = Field(
        default=None, description="A bearer token, used in place of a name and a password."
    )

    @model_validator(mode="after")
    def _one_way_to_log_in(self) -> "MLflowTracking":
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password belong together; give both or neither")
        if self.token is not None and self.username is not None:
            raise ValueError("give a token, or a username and a password, not both")
        return self

    def client(self) -> MlflowClient:
        """A client for this tracking server.

        MLflow takes credentials from the environment and nowhere else, at every request: they are
        set there, for this process.
        """
        os.environ.update(self._credentials())
        return MlflowClient(self.tracking_uri)

    def _credentials(self) -> dict[str, str]:
        known = {
            "MLFLOW_TRACKING_USERNAME": self.username,
            "MLFLOW_TRACKING_PASSWORD": _revealed(self.password),
            "MLFLOW_TRACKING_TOKEN": _revealed(self.token),
        }
        return {name: value for name, value in known.items() if value is not None}


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
