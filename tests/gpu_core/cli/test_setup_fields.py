"""Which fields of MLflow's block does `setup` want?"""

from pathlib import Path

import pytest

from gpu_core.cli.setup.addresses import with_checked_addresses
from gpu_core.cli.setup.blocks import mlflow_fields
from gpu_core.cli.setup.command import setup
from gpu_core.cli.setup.options import SetupOptions
from gpu_core.decisions.model.errors import InvalidInput

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
        mlflow_uri=uri,
        mlflow_token=token,
    )
    assert mlflow_fields(options, current) == want
    assert "secret" not in repr(options)


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param({"pool": ""}, "--pool is empty", id="no pool"),
        pytest.param(
            {"pool": "a/b"}, "--pool is not a valid work pool name (got 'a/b')", id="pool"
        ),
        pytest.param(
            {"ledger_url": "nonsense"}, "--ledger-url is not a database address", id="ledger"
        ),
        pytest.param(
            {"ledger_url": "mysql://a@b/c"}, "--ledger-url names another database", id="database"
        ),
        pytest.param(
            {"checkpoint_uri": "s4://bucket"},
            "--checkpoint-uri has an unknown scheme (got 's4://bucket')",
            id="store",
        ),
        pytest.param(
            {"mlflow_uri": "nonsense"},
            "--mlflow-uri is not a valid URL (got 'nonsense')",
            id="mlflow",
        ),
        pytest.param(
            {"ledger_url": "x", "mlflow_uri": "y"}, "\n--mlflow-uri is not a valid URL", id="two"
        ),
        pytest.param(
            {"prefect_file": Path("prefct.yaml")}, "Did you mean 'prefect.yaml'?", id="no such file"
        ),
        pytest.param({"policy_path": Path("plicy.yaml")}, "plicy.yaml does not", id="no policy"),
    ],
)
def test_options_that_cannot_be_used_are_refused_before_the_server_is_asked(
    given, want, monkeypatch
):
    # Nothing listens there: had anything been asked of the server, the error would be another one.
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    with pytest.raises(InvalidInput) as refused:
        setup(SetupOptions(**{"pool": "gpu", "policy_path": None, **given}))
    assert want in str(refused.value)


def test_addresses_mean_the_same_in_every_folder(monkeypatch, tmp_path):
    """Worker and runs have other folders than the person who sets up."""
    monkeypatch.chdir(tmp_path)
    given = SetupOptions(
        pool="gpu", policy_path=None, ledger_url="sqlite:///a.db", checkpoint_uri="checkpoints"
    )
    found = with_checked_addresses(given)
    assert found.ledger_url == f"sqlite:///{tmp_path}/a.db"
    assert found.checkpoint_uri == f"{tmp_path}/checkpoints"


@pytest.mark.parametrize(
    "address",
    ["postgresql://gpu:secret@db/ledger", "postgresql+psycopg://gpu@db:5432/l?sslmode=require"],
)
def test_an_address_of_a_server_stays_as_it_was_given(address):
    given = SetupOptions(
        pool="gpu", policy_path=None, ledger_url=address, checkpoint_uri="s3://bucket/prefix"
    )
    assert with_checked_addresses(given) == given


def test_keys_in_the_address_of_the_checkpoints_are_refused_and_not_shown():
    options = SetupOptions(
        pool="gpu",
        policy_path=Path("deployments/policy.yaml"),
        prefect_file=Path("prefect.yaml"),
        checkpoint_uri="s3://KEY:secret@bucket/prefix",
    )
    with pytest.raises(
        InvalidInput, match=r"^--checkpoint-uri must not contain credentials "
    ) as caught:
        setup(options)
    assert "secret" not in str(caught.value)
