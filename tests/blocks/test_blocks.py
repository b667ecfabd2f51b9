"""Our block types keep Prefect's standards for blocks, and open what they point at."""

import importlib
import os
import pkgutil
from pathlib import Path

import pytest
from prefect.blocks.core import Block
from prefect.testing.standard_test_suites import BlockStandardTestSuite
from pydantic import SecretStr, ValidationError

import blocks
from blocks.checkpoint_store import CheckpointStore
from blocks.mlflow_tracking import MLflowTracking
from blocks.usage_ledger import UsageLedger
from gpu_core.decisions.model.errors import InvalidInput
from tests.support.mlflow_databases import new_mlflow_database


def our_blocks() -> list[type[Block]]:
    """Every block type that is defined in the package `blocks`."""
    modules = [
        importlib.import_module(f"blocks.{module.name}")
        for module in pkgutil.iter_modules(blocks.__path__)
    ]
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Block)
        if value.__module__ == module.__name__
    ]


@pytest.mark.parametrize("block", our_blocks())
class TestBlockStandards(BlockStandardTestSuite):
    """Description, documentation, described fields, and an example with an import and a load."""

    @pytest.fixture
    def block(self, request: pytest.FixtureRequest) -> type[Block]:
        """Replaced by the parameter."""
        raise NotImplementedError

    def test_has_a_valid_image(self, block: type[Block]) -> None:
        """We have no logo; Prefect's own test would download one."""
        assert block._logo_url is None


def test_the_slugs_are_a_contract() -> None:
    """Saved documents are found by them: never rename one."""
    want = {
        "gpu-checkpoint-store",
        "gpu-cluster",
        "gpu-kubernetes-job",
        "gpu-mlflow-tracking",
        "gpu-usage-ledger",
    }
    assert {block.get_block_type_slug() for block in our_blocks()} == want


def test_the_usage_ledger_opens_and_hides_its_address(tmp_path: Path) -> None:
    block = UsageLedger(url=SecretStr(f"sqlite:///{tmp_path}/ledger.db"))
    with block.open() as ledger:
        assert ledger.run("nobody") is None
    assert str(tmp_path) not in repr(block)


def test_the_checkpoint_store_opens_what_it_points_at(tmp_path: Path) -> None:
    assert CheckpointStore(uri=str(tmp_path / "checkpoints")).open() is not None
    with pytest.raises(InvalidInput, match="unknown scheme"):
        CheckpointStore(uri="ftp://somewhere").open()


def test_the_mlflow_client_reaches_its_server(tmp_path: Path) -> None:
    client = MLflowTracking(tracking_uri=new_mlflow_database(tmp_path)).client()
    assert client.get_experiment_by_name("Default") is not None


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param(
            {"username": "ada", "password": "secret-1"},
            {"MLFLOW_TRACKING_USERNAME": "ada", "MLFLOW_TRACKING_PASSWORD": "secret-1"},
            id="name and password",
        ),
        pytest.param({"token": "secret-1"}, {"MLFLOW_TRACKING_TOKEN": "secret-1"}, id="token"),
        pytest.param({}, {}, id="nothing"),
    ],
)
def test_mlflow_credentials_reach_mlflow_only(
    fields: dict[str, str], want: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("USERNAME", "PASSWORD", "TOKEN"):
        monkeypatch.setenv(f"MLFLOW_TRACKING_{name}", "")
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}")
    block = MLflowTracking(tracking_uri=new_mlflow_database(tmp_path), **fields)
    block.client()
    assert {k: v for k, v in os.environ.items() if k in _CREDENTIALS} == want
    assert "secret-1" not in repr(block)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({}, ("ada", "secret-1", None), id="the address has them"),
        pytest.param({"token": "secret-2"}, (None, None, "secret-2"), id="a token counts more"),
    ],
)
def test_a_password_in_the_address_of_mlflow_moves_to_the_field_that_hides_it(
    fields: dict[str, str], want: tuple[str | None, ...]
) -> None:
    """So it is with what the version before has saved, too."""
    block = MLflowTracking(tracking_uri="http://ada:secret-1@mlflow:5000", **fields)
    access = block.access()
    assert (access.username, access.password, access.token) == want
    assert block.tracking_uri == "http://mlflow:5000"
    assert "secret" not in f"{block!r} {block.model_dump_json()}"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"username": "ada"}, id="a name without a password"),
        pytest.param({"password": "p"}, id="a password without a name"),
        pytest.param({"username": "ada", "password": "p", "token": "t"}, id="both ways at once"),
    ],
)
def test_half_a_login_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match=r"belong together|not both"):
        MLflowTracking(tracking_uri="http://127.0.0.1:1", **fields)


_CREDENTIALS = {f"MLFLOW_TRACKING_{name}" for name in ("USERNAME", "PASSWORD", "TOKEN")}
