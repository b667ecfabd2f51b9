"""The address of MLflow and its credentials."""

from collections.abc import Mapping
from typing import Any

from mlflow import MlflowClient
from prefect.blocks.core import Block
from pydantic import Field, HttpUrl, SecretStr, model_validator

from gpu_core.adapters.mlflow.client import mlflow_client
from gpu_core.decisions.costs.mlflow.mlflow_access import MlflowAccess, split_credentials


class MLflowTracking(Block):
    """
    The MLflow tracking server to which the cost of runs is logged.

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
        description="The tracking server's address, or 'sqlite:////absolute/path/mlflow.db'; "
        "user and password have fields of their own, because all users may read this one.",
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
            raise ValueError("username and password belong together; give both or neither")
        if self.token is not None and self.username is not None:
            raise ValueError("give a token, or a username and a password, not both")
        return self

    def access(self) -> MlflowAccess:
        """Where MLflow is, and who we are there."""
        return MlflowAccess.of(
            self.tracking_uri,
            username=self.username,
            password=_revealed(self.password),
            token=_revealed(self.token),
        )

    def client(self) -> MlflowClient:
        """A client for this tracking server.

        MLflow takes credentials from the environment and nowhere else, at every request: they are
        set there, for this process.
        """
        return mlflow_client(self.access())


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
