"""Leader election, as a worker sees it: one acting worker, the others on standby."""

from typing import Protocol


class Leadership(Protocol):
    """Leader election: one acting worker for each pool and machine, or each pool and cluster."""

    async def acquire(self) -> bool:
        """Is this worker the acting one, from before and still? Tries to become it."""
        ...

    @property
    def why_not(self) -> str:
        """The known reason why it is not acting, as a clause."""
        ...

    @property
    def is_standby(self) -> bool:
        """Is it known that another one acts? False: the lock or lease does not answer."""
        ...

    async def release(self) -> None:
        """Let another worker act."""
        ...
