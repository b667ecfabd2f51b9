"""A block for the address and the credentials of an MLflow server."""

from collections.abc import Mapping
from typing import Any

from mlflow import MlflowClient
from prefect.blocks.core import Block
from pydantic import Field, HttpUrl, SecretStr, model_validator

from gpu_core.adapters.mlflow.client import mlflow_client
from gpu_core.decisions.costs.mlflow.mlflow_access import MlflowAccess, split_credentials


class MLflowTracking(Block):
    """Stores the configuration of the MLflow tracking server to which the cost of runs is logged.

    Example:
        Get a client for the tracking server:
        ```python
        from gpu_core.blocks.mlflow_tracking import MLflowTracking

        mlflow_tracking = MLflowTracking.load("BLOCK_NAME")
        client = mlflow_tracking.client()
        ```
    """

    _block_type_name = "GPU MLflow Tracking"
    _block_type_slug = "gpu-mlflow-tracking"
    _documentation_url = HttpUrl("https://mlflow.org/docs/latest/ml/tracking/")

    tracking_uri: str = Field(
        min_length=1,
        description="The address of the tracking server, or 'sqlite:////absolute/path/mlflow.db'. "
        "Use the other fields for the user name and the password, because this field can be "
        "read by all users.",
        examples=["http://mlflow:5000"],
    )
    username: str | None = Field(
        default=None, description="The user name for the server, if required."
    )
    password: SecretStr | None = Field(default=None, description="The password of the user.")
    token: SecretStr | None = Field(
        default=None, description="A bearer token. Used instead of a user name and a password."
    )

    @model_validator(mode="before")
    @classmethod
    def _no_password_in_the_address(cls, values: Any) -> Any:
        """The address is not secret: what is secret in it moves to the fields that are."""
        if not isinstance(values, Mapping) or not isinstance(values.get("tracking_uri"), str):
            return values
        address, found = split_credentials(values["tracking_uri"])
        known = [values.get(name) for name in ("username", "password", "token")]
        if found is None or any(known):
            return {**values, "tracking_uri": address}
        return {**values, "tracking_uri": address, "username": found[0], "password": found[1]}

    @model_validator(mode="after")
    def _one_way_to_log_in(self) -> "MLflowTracking":
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password belong together. Give both or neither")
        if self.token is not None and self.username is not None:
            raise ValueError("give a token, or a username and a password, not both")
        return self

    def access(self) -> MlflowAccess:
        """Returns the address and the credentials of the tracking server."""
        return MlflowAccess.of(
            self.tracking_uri,
            username=self.username,
            password=_revealed(self.password),
            token=_revealed(self.token),
        )

    def client(self) -> MlflowClient:
        """Creates a client for this tracking server.

        MLflow only reads credentials from the environment, at every request. Therefore, this method
        sets the environment variables of the current process.
        """
        return mlflow_client(self.access())


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
