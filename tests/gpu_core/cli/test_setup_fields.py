"""Which fields of MLflow's block does `setup` want?"""

from pathlib import Path

import pytest

from gpu_core.cli.setup import SetupOptions, setup
from gpu_core.cli.setup.blocks import mlflow_fields
from gpu_core.decisions.errors import InvalidInput

IN_CLEAR = {"tracking_uri": "http://ada:secret@mlflow"}
HIDDEN = {"tracking_uri": "http://mlflow", "username": "ada", "password": "secret", "token": None}
WITH_TOKEN = {"tracking_uri": "http://mlflow", "username": None, "password": None, "token": "t-1"}


@pytest.mark.parametrize(
    ("uri", "token", "current", "want"),
    [
        pytest.param(None, None, {}, {}, id="nothing is known"),
        pytest.param(None, "t-1", {}, {}, id="a token of no server"),
        pytest.param(None, None, IN_CLEAR, HIDDEN, id="an earlier version left it in clear"),
        pytest.param(IN_CLEAR["tracking_uri"], None, {}, HIDDEN, id="a new address has it"),
        pytest.param("http://mlflow", None, HIDDEN, HIDDEN, id="an address alone keeps the user"),
        pytest.param(None, "t-1", HIDDEN, WITH_TOKEN, id="a token takes the user's place"),
        pytest.param(IN_CLEAR["tracking_uri"], None, WITH_TOKEN, HIDDEN, id="a user a token's"),
        pytest.param(None, None, {**IN_CLEAR, "token": "t-1"}, WITH_TOKEN, id="the token counted"),
    ],
)
def test_the_fields_of_mlflows_block(uri, token, current, want):
    options = SetupOptions(
        pool="gpu",
        policy_path=Path("policy.yaml"),
        prefect_file=Path("prefect.yaml"),
        mlflow_uri=uri,
        mlflow_token=token,
    )
    assert mlflow_fields(options, current) == want
    assert "secret" not in repr(options)


def test_keys_in_the_address_of_the_checkpoints_are_refused_and_not_shown():
    options = SetupOptions(
        pool="gpu",
        policy_path=Path("deployments/policy.yaml"),
        prefect_file=Path("prefect.yaml"),
        checkpoint_uri="s3://KEY:secret@bucket/prefix",
    )
    with pytest.raises(InvalidInput, match=r"^--checkpoint-uri has credentials in it ") as caught:
        setup(options)
    assert "secret" not in str(caught.value)
