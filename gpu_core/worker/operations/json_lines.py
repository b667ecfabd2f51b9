"""Structured logs: each line of a worker's log as one JSON object."""

import logging
from collections.abc import Iterator

from prefect.logging.handlers import PrefectConsoleHandler
from pythonjsonlogger.json import JsonFormatter

_RENAMED = {"levelname": "level", "name": "logger", "exc_info": "exception"}


def log_json_lines(pool: str, worker: str) -> None:
    """Write each log line of this process as one JSON object, to the same stream as before.

    Prefect's own formatter `json` is not used: it leaves message and arguments apart, and its
    console handler reads brackets as markup where `PREFECT_LOGGING_MARKUP` is set.

    Args:
        pool: The work pool, a field of each line.
        worker: The worker's name, a field of each line.
    """
    formatter = JsonFormatter(
        ["levelname", "name", "message"],
        rename_fields=_RENAMED,
        static_fields={"pool": pool, "worker_name": worker},
        timestamp=True,
        json_ensure_ascii=False,
    )
    for logger, handler in list(_console_handlers()):
        plain = logging.StreamHandler(handler.stream)
        plain.setLevel(handler.level)
        plain.setFormatter(formatter)
        for each in handler.filters:
            plain.addFilter(each)
        logger.removeHandler(handler)
        logger.addHandler(plain)
    logging.captureWarnings(True)


def _console_handlers() -> Iterator[tuple[logging.Logger, PrefectConsoleHandler]]:
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    for logger in loggers:
        for handler in getattr(logger, "handlers", ()):
            if isinstance(handler, PrefectConsoleHandler) and isinstance(logger, logging.Logger):
                yield logger, handler
