"""Lists of Prefect's API, page by page."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

PAGE = 200
"""The most objects in one answer of Prefect's server (`PREFECT_API_DEFAULT_LIMIT`)."""


async def read_pages(
    read: Callable[[int, int], Awaitable[Sequence[T]]],
) -> AsyncIterator[Sequence[T]]:
    """The pages of a list, until one is not full. A reader that has enough stops iterating.

    Args:
        read: Reads at most `limit` objects from `offset` on; its two arguments.
    """
    offset = 0
    while True:
        page = await read(PAGE, offset)
        yield page
        if len(page) < PAGE:
            return
        offset += len(page)


async def read_all(read: Callable[[int, int], Awaitable[Sequence[T]]]) -> list[T]:
    """All objects of a list.

    Args:
        read: As for `read_pages`.
    """
    return [each async for page in read_pages(read) for each in page]
