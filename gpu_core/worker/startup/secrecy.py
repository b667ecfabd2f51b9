"""Keeps known secrets out of the worker's logs and the pages of runs."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from prefect.settings.context import get_current_settings

from gpu_core.decisions.model.redaction import basic_credentials, redact


class Secrets:
    """The secret values that a worker has read so far."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def add(self, values: Iterable[str]) -> None:
        """Learn of more."""
        self._values.update(values)

    def hidden(self, text: str) -> str:
        """The text as people may read it."""
        return redact(text, self._values)


def prefect_keys() -> tuple[str, ...]:
    """The values by which this process logs in at Prefect's API."""
    settings = get_current_settings()
    api, headers = settings.api, settings.client.custom_headers
    known = [key.get_secret_value() for key in (api.key, api.auth_string) if key is not None]
    pairs = [key.partition(":") for key in known if ":" in key]
    basic = [basic_credentials(user, password) for user, _, password in pairs]
    return (*known, *basic, *(password for _, _, password in pairs), *headers.values())


# Of the worker's own environment, which its runs get too.
_SECRET_VARIABLES = (
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_TOKEN",
)


def secrets_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The values of the variables that stores and MLflow take keys from."""
    return tuple(environment[name] for name in _SECRET_VARIABLES if environment.get(name))


@contextmanager
def hidden_in_logs(secrets: Secrets) -> Iterator[None]:
    """While this lasts, no handler of this process writes a secret, not even in a traceback."""
    hiding = _Hiding(secrets)
    handlers = _handlers()
    for handler in handlers:
        handler.addFilter(hiding)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(hiding)


def _handlers() -> list[logging.Handler]:
    known = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    found = (handler for each in known for handler in getattr(each, "handlers", ()))
    return list(dict.fromkeys(found))


class _Hiding(logging.Filter):
    """Lets every record pass, with its secrets hidden."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            message = record.getMessage()
        except Exception:  # a library's own mistake: the handler reports it, as without this filter
            return True
        hidden = self._secrets.hidden(message)
        if hidden != message:
            record.msg, record.args = hidden, None
        if record.exc_info and not record.exc_text:
            with suppress(Exception):  # it cannot be shown: the handler reports that
                record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            hidden = self._secrets.hidden(record.exc_text)
            if hidden != record.exc_text:
                # A formatter of another kind would write the exception anew.
                record.exc_text, record.exc_info = hidden, None
        return True
