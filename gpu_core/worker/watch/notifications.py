"""Messages through Prefect's notification blocks: Slack, e-mail or any webhook."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import anyio
from prefect.blocks.core import Block

_log = logging.getLogger("prefect.gpu.notifications")

_LONGEST_SEND_S = 30.0

LoadBlock = Callable[[str], Awaitable[Any]]
"""Reads a saved block by `type/name`."""

load_block: LoadBlock = Block.aload


async def notify(
    names: Iterable[str], about: str, subject: str, body: str, load: LoadBlock = load_block
) -> bool:
    """Did all these blocks take the message? Each is tried.

    Args:
        names: Saved blocks, as `type/name`.
        about: What the message is about, for the log: `Budget vision`.
        subject: Of the message.
        body: Of the message.
        load: Reads a block.
    """
    return all([await _send(name, about, subject, body, load) for name in names])


async def _send(name: str, about: str, subject: str, body: str, load: LoadBlock) -> bool:
    """The error text of the block is not logged, because it may contain the block's address."""
    try:
        with anyio.fail_after(_LONGEST_SEND_S):
            block = await load(name)
            await block.notify(body, subject)
    except Exception as error:
        _log.error(
            "%s: failed to send a notification with block %s (%s). Retrying in 1 minute.",
            *(about, name, type(error).__name__),
        )
        return False
    return True
