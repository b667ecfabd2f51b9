"""What a worker connects to, and what ends it where that cannot be used."""

import anyio
import pytest

from gpu_core.adapters.ledger import Ledger, LedgerRefused
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.worker.startup import stores as module
from gpu_core.worker.startup.checks import CannotStart
from gpu_core.worker.startup.connections import Connections
from gpu_core.worker.startup.secrecy import Secrets
from gpu_core.worker.startup.settings import GpuWorkerSettings
from gpu_core.worker.startup.stores import WorkerStores, open_ledger


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(LedgerRefused("cannot open the ledger: no password"), id="refused"),
        pytest.param(InvalidInput("ledger url", "is not a database address"), id="no address"),
    ],
)
def test_a_ledger_that_stays_closed_ends_the_worker(monkeypatch, error):
    def refuse(_url):
        raise error

    monkeypatch.setattr(Ledger, "open", refuse)
    with pytest.raises(CannotStart, match="Correct PREFECT_INTEGRATIONS_GPU_LEDGER_URL"):
        anyio.run(open_ledger, "sqlite:////x")


def test_the_ledger_is_opened_once_and_its_credentials_are_hidden(tmp_path, monkeypatch):
    read = []

    async def read_connections(_client, _settings, state_dir, pool):
        read.append((state_dir, pool))
        return Connections(
            ledger_url=f"sqlite:///{tmp_path}/ledger.db?password=hunter2-hunter2",
            mlflow=None,
            checkpoint_uri="unused",
        )

    opened = []
    monkeypatch.setattr(module, "read_connections", read_connections)
    monkeypatch.setattr(Ledger, "open", lambda url: opened.append(url) or Closing())

    class Closing:
        """A ledger that can be closed once."""

        def close(self):
            opened.append("closed")

    async def story():
        secrets = Secrets()
        stores = WorkerStores(GpuWorkerSettings(state_dir=tmp_path / "gpu"), "gpus", secrets)
        assert await stores.ledger(None) is await stores.ledger(None)
        stores.close()
        stores.close()
        assert stores.connections is not None
        return secrets.hidden("connect with hunter2-hunter2")

    hidden = anyio.run(story)
    assert read == [(tmp_path / "gpu", "gpus")]
    assert opened[1:] == ["closed"]
    assert "hunter2" not in hidden
