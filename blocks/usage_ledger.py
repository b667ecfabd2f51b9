"""A block for the address of the usage ledger."""

from prefect.blocks.core import Block
from pydantic import Field, HttpUrl, SecretStr

from gpu_core.adapters.ledger import Ledger


class UsageLedger(Block):
    """Stores the address of the database in which the GPU usage of all runs is recorded. You can
    use SQLite on a single machine, or PostgreSQL on several machines.

    Example:
        Open the ledger and read what used GPUs in a time:
        ```python
        from gpu_core.blocks.usage_ledger import UsageLedger

        usage_ledger = UsageLedger.load("BLOCK_NAME")
        with usage_ledger.open() as ledger:
            usage = ledger.usage(start, end)
        ```
    """

    _block_type_name = "GPU Usage Ledger"
    _block_type_slug = "gpu-usage-ledger"
    _documentation_url = HttpUrl(
        "https://docs.sqlalchemy.org/en/20/core/engines.html#database-urls"
    )

    url: SecretStr = Field(
        description=(
            "The address of the database, for example 'sqlite:////absolute/path/ledger.db' or "
            "'postgresql+psycopg://user:password@host:5432/name'."
        ),
    )

    def open(self) -> Ledger:
        """Opens the ledger, and creates or upgrades the tables if required. You must close the
        ledger after use.

        Raises:
            InvalidInput: The address cannot be used.
            LedgerError: The database cannot be reached, or is newer than this library.
        """
        return Ledger.open(self.url.get_secret_value())
