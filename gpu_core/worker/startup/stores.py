"""The connections of a worker, and its ledger, which is opened when it is asked for first."""

from prefect.client.orchestration import PrefectClient

from gpu_core.adapters.ledger import Ledger, LedgerRefused
from gpu_core.decisions.model.errors import InvalidInput, sentences
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.startup.checks import CannotStart
from gpu_core.worker.startup.connections import Connections, read_connections
from gpu_core.worker.startup.secrecy import Secrets
from gpu_core.worker.startup.settings import GpuWorkerSettings
from gpu_core.worker.startup.state_folder import open_state_folder


class WorkerStores:
    """The outside systems of one worker.

    Args:
        settings: The worker's settings.
        pool: The pool's name.
        secrets: Learns the credentials that are found.
    """

    def __init__(self, settings: GpuWorkerSettings, pool: str, secrets: Secrets) -> None:
        self._settings = settings
        self._pool = pool
        self._secrets = secrets
        self._ledger: Ledger | None = None
        self.connections: Connections | None = None
        """Those that were read last; None: none were read yet."""

    async def connect(self, client: PrefectClient) -> Connections:
        """Read where the ledger, MLflow and the checkpoint store are."""
        state_dir = self._settings.resolved_state_dir()
        await in_thread(open_state_folder, state_dir)
        found = await read_connections(client, self._settings, state_dir, self._pool)
        self.connections = found
        self._secrets.add(found.secrets())
        return found

    async def ledger(self, client: PrefectClient) -> Ledger:
        """The pool's ledger, opened when it is asked for first.

        Raises:
            CannotStart: A person has to change its address or its rights first.
        """
        if self._ledger is None:
            connections = self.connections or await self.connect(client)
            self._ledger = await open_ledger(connections.ledger_url)
        return self._ledger

    def close(self) -> None:
        """Close the ledger, if it is open."""
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None


async def open_ledger(url: str) -> Ledger:
    """Open the ledger at this address.

    Raises:
        CannotStart: A person has to change the address or the ledger's rights first.
    """
    try:
        return await in_thread(Ledger.open, url)
    except (InvalidInput, LedgerRefused) as error:
        raise CannotStart(
            sentences(str(error), "correct PREFECT_INTEGRATIONS_GPU_LEDGER_URL or the ledger block")
        ) from error
