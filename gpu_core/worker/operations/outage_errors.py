"""The errors by which the ledger, Prefect's API, the cluster or the machine is unavailable."""

import errno

import httpx
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from gpu_core.adapters.kubernetes.api import KubernetesError
from gpu_core.adapters.ledger import LedgerError, is_ledger_outage
from gpu_core.adapters.prefect.request_errors import why_failed
from gpu_core.worker.infrastructure import Unavailable
from gpu_core.worker.prefect.repeated_requests import ApiAway

# Answers of a server that every request may get: how often it is asked, and what is behind it.
_OUTAGE_STATUSES = frozenset({408, 429, 502, 503, 504})

OUTAGE_ERRNOS = frozenset(
    {
        errno.EDQUOT,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.EROFS,
    }
)
"""The errors of a machine that lacks something for every run."""


RETRIED_IN_CYCLE = "the worker retries in the next cycle"
"""The clause of a log message on a failure that the next scheduling cycle may not have."""


def is_outage(error: BaseException) -> bool:
    """Is something unavailable that all runs need, so that no run is blamed for this error?

    The ledger, Prefect's API, the cluster or the machine. A server that answers with an error of
    its own (500) to what concerns one run may not be able to handle this one, and one that refuses
    it (401, 403) may refuse this one alone: an account without a right, a proxy's filter. Where the
    database or the worker's key is at fault, the question for all runs that begins each cycle
    fails too.
    """
    match error:
        case httpx.HTTPStatusError():
            return error.response.status_code in _OUTAGE_STATUSES
        case KubernetesError():
            is_unknown = error.status == httpx.codes.UNAUTHORIZED  # of the worker itself
            return is_unknown or error.is_retryable or error.status in _OUTAGE_STATUSES
        case IntegrityError():
            return True  # a damaged database: what is written down is new each time
        case SQLAlchemyError() | LedgerError():
            return is_ledger_outage(error)
        case httpx.TransportError() | ConnectionError() | TimeoutError():
            return True
        case OSError():
            return error.errno in OUTAGE_ERRNOS
        case MemoryError():
            return True
    return False


def platform_failure(error: BaseException) -> str | None:
    """The outage of the platform that this error of the worker shows, as a clause; None: none.

    Args:
        error: What a start of a run failed with. Only Prefect's API and the ledger are asked in it;
            other systems raise errors of their own.
    """
    if isinstance(error, Unavailable):
        return str(error)
    if is_ledger_outage(error):
        return f"the ledger did not respond to the worker: {type(error).__name__}"
    match error:
        case httpx.HTTPStatusError() if is_unanswered(error):
            return f"the Prefect API returned HTTP {error.response.status_code}"
        case ApiAway():
            return str(error)
        case httpx.TransportError():
            return f"the Prefect API did not respond to the worker: {why_failed(error)}"
    return None


def is_unanswered(error: BaseException) -> bool:
    """Did Prefect's API give no answer, or one that it cannot serve the request?"""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR
    return isinstance(error, httpx.TransportError)
