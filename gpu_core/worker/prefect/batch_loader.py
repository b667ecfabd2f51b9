"""One request for many askers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import anyio

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class _Batch(Generic[K, V]):
    """A batch of keys that are requested together, and its result."""

    keys: dict[K, None] = field(default_factory=dict)
    answers: Mapping[K, V] | None = None
    error: Exception | None = None


class BatchLoader(Generic[K, V]):
    """Asks for many at once: who comes while one request is under way shares the next one.

    No call waits for others, and no answer is older than its question.

    Args:
        ask: Answers for these keys; one that is missing from the answer is answered with None.
    """

    def __init__(self, ask: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._ask = ask
        self._turn = anyio.Lock()
        self._gathering: _Batch[K, V] = _Batch()

    async def of(self, key: K) -> V | None:
        """The answer for this key.

        Raises:
            Exception: What the request that it was part of failed with.
        """
        batch = self._gathering
        batch.keys[key] = None
        async with self._turn:
            if batch.answers is None and batch.error is None:
                await self._serve(batch)
        if batch.error is not None:
            raise batch.error
        return (batch.answers or {}).get(key)

    async def _serve(self, batch: _Batch[K, V]) -> None:
        if self._gathering is batch:
            self._gathering = _Batch()
        try:
            batch.answers = await self._ask(tuple(batch.keys))
        except Exception as error:
            batch.error = error
