"""What MLflow needs to log in stands apart from its address."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.costs.mlflow.mlflow_access import (
    MlflowAccess,
    missing_secrets,
    split_credentials,
    with_credentials,
)

SECRET = "secret"  # noqa: S105 - not a real password
DATABASE = MlflowAccess.of("postgresql://gpu:secret@db:5432/mlflow")
SERVER = MlflowAccess.of("https://ada:secret@mlflow:5000/base")


@pytest.mark.parametrize(
    ("address", "want"),
    [
        ("http://mlflow:5000", ("http://mlflow:5000", None)),
        ("http://mlflow:5000/x@y", ("http://mlflow:5000/x@y", None)),
        ("http://ada:p%40w@mlflow:5000/x@y", ("http://mlflow:5000/x@y", ("ada", "p@w"))),
        ("https://token@mlflow", ("https://mlflow", ("token", ""))),
        ("postgresql://ada@db/m", ("postgresql://ada@db/m", None)),
        ("mysql+pymysql://ada:p/w@db/m", ("mysql+pymysql://db/m", ("ada", "p/w"))),
        ("postgresql://db/m?user=ada&password=p&x=1", ("postgresql://db/m?x=1", ("ada", "p"))),
        ("sqlite:////var/lib/mlflow@1.db", ("sqlite:////var/lib/mlflow@1.db", None)),
        ("/var/lib/mlruns", ("/var/lib/mlruns", None)),
        ("databricks", ("databricks", None)),
    ],
)
def test_an_address_is_split_from_its_credentials(address, want):
    assert split_credentials(address) == want


@given(st.text(min_size=1, max_size=12), st.text(max_size=12))
def test_what_was_split_is_put_together_again(username, password):
    address = with_credentials("postgresql://db:5432/mlflow", username, password)
    assert split_credentials(address) == ("postgresql://db:5432/mlflow", (username, password))


def test_a_server_gets_its_credentials_apart_from_its_address():
    assert SERVER.environment() == {
        "MLFLOW_TRACKING_URI": "https://mlflow:5000/base",
        "MLFLOW_TRACKING_USERNAME": "ada",
        "MLFLOW_TRACKING_PASSWORD": "secret",
    }
    assert SERVER.public_environment() == {"MLFLOW_TRACKING_URI": "https://mlflow:5000/base"}


def test_a_database_has_its_password_in_the_address_of_its_client_only():
    assert DATABASE.tracking_uri == "postgresql://db:5432/mlflow"
    assert DATABASE.environment() == {
        "MLFLOW_TRACKING_URI": "postgresql://gpu:secret@db:5432/mlflow"
    }
    assert DATABASE.public_environment() == {"MLFLOW_TRACKING_URI": "postgresql://db:5432/mlflow"}


def test_what_is_given_counts_more_than_what_the_address_says():
    access = MlflowAccess.of("http://ada:old-password@mlflow", token=SECRET)
    assert access.environment() == {
        "MLFLOW_TRACKING_URI": "http://mlflow",
        "MLFLOW_TRACKING_TOKEN": SECRET,
    }


@pytest.mark.parametrize("access", [DATABASE, SERVER, MlflowAccess.of("http://m", token=SECRET)])
def test_nothing_that_is_shown_has_the_secret_in_it(access):
    assert "secret" in access.secrets()
    assert "secret" not in f"{access!r} {access.tracking_uri} {access.public_environment()}"


@pytest.mark.parametrize(
    ("access", "in_secrets", "want"),
    [
        (MlflowAccess.of("http://mlflow"), (), ()),
        (SERVER, (), ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")),
        (SERVER, ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"), ()),
        (MlflowAccess.of("http://m", token=SECRET), (), ("MLFLOW_TRACKING_TOKEN",)),
        (DATABASE, ("MLFLOW_TRACKING_TOKEN",), ("MLFLOW_TRACKING_URI",)),
    ],
)
def test_pods_need_a_secret_for_each_variable_that_is_secret(access, in_secrets, want):
    assert missing_secrets(access, in_secrets) == want


def test_a_file_keeps_its_address_whichever_user_is_given():
    access = MlflowAccess.of("sqlite:////mlflow.db", username="ada", password=SECRET)
    assert access.client_uri == "sqlite:////mlflow.db"


@pytest.mark.parametrize(
    ("address", "want"),
    [
        pytest.param("http://mlflow:5000", "http://mlflow:5000", id="a server"),
        pytest.param("https://ada:secret@mlflow/x/", "https://mlflow/x", id="without its password"),
        pytest.param("http://mlflow.svc.example", "http://mlflow.svc.example", id="a domain"),
        pytest.param("http://mlflow.ml.svc:5000", None, id="a Service"),
        pytest.param("http://mlflow.ml.svc.cluster.local", None, id="a Service in full"),
        pytest.param("sqlite:////mlflow.db", None, id="a file"),
        pytest.param("postgresql://db/mlflow", None, id="a database"),
        pytest.param("databricks", None, id="a profile"),
    ],
)
def test_pages_that_people_can_open(address: str, want: str | None) -> None:
    assert MlflowAccess.of(address).pages_uri == want
