"""The exit codes of `prefect-gpu`, and what `--help` says of them."""

from collections.abc import Mapping

DONE, NO, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130

_NO_SERVER = "the server returned an error or is unavailable"

MEANING_OF_1: Mapping[str, str] = {
    "prefect-gpu quickstart": "one or more checks failed",
    "prefect-gpu setup": "the server returned an error or is unavailable",
    "prefect-gpu check": "one or more files contain errors",
    "prefect-gpu doctor": "one or more checks failed",
    "prefect-gpu anomalies": "an anomaly was detected or the ledger database could not be read",
    "prefect-gpu queue": _NO_SERVER,
    "prefect-gpu hold": _NO_SERVER,
    "prefect-gpu release": _NO_SERVER,
    "prefect-gpu move-up": _NO_SERVER,
    "prefect-gpu simulate": "the ledger database could not be read",
    "prefect-gpu plan": "no suitable offering was found or the ledger database could not be read",
    "prefect-gpu catalog show": "an I/O error occurred",
    "prefect-gpu catalog refresh": "no prices could be retrieved or the catalog could not be "
    "written",
    "prefect-gpu cost report": "the ledger database could not be read",
    "prefect-gpu cost savings": "the ledger database could not be read",
    "prefect-gpu cost export": "the ledger could not be read or the file could not be written",
    "prefect-gpu gpus held": "an I/O error occurred",
    "prefect-gpu gpus free": "the GPU could not be released",
    "prefect-gpu gpus preflight": "the GPU did not pass the checks and is still held",
    "prefect-gpu gpus history": "the ledger database could not be read",
    "prefect-gpu gpus export": "the address is not available or the driver was replaced",
    "prefect-gpu cost reconcile": "the ledger database could not be read or written",
    "prefect-gpu optimize": "the ledger database could not be read",
    "prefect-gpu optimize show": "the ledger database could not be read",
    "prefect-gpu optimize ask": "the ledger database could not be read",
    "prefect-gpu optimize undo": "the deployment has been modified in the meantime or a server "
    "returned an error",
    "prefect-gpu ledger verify": "a record is missing, was modified or could not be read",
    "prefect-gpu ledger purge": "a record is missing or was modified, so that no records were "
    "deleted",
    "prefect-gpu spot-replay": "a deadline was missed or the ledger database could not be read",
}
"""The meaning of exit code 1, by command."""


def exit_codes(command: str) -> str:
    """The sentence of `--help` on a command's exit codes."""
    return (
        f"Exit codes: {DONE}: success. {NO}: {MEANING_OF_1[command]}. {WRONG_INPUT}: invalid "
        f"arguments; no changes were made. {INTERRUPTED}: interrupted."
    )
