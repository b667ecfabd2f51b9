"""The exit codes of `prefect-gpu`, and what `--help` says of them."""

from collections.abc import Mapping

DONE, NO, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130

_NO_SERVER = "the server refused or stopped answering"

MEANING_OF_1: Mapping[str, str] = {
    "prefect-gpu quickstart": "a check of the story failed",
    "prefect-gpu setup": "the server refused a step or stopped answering",
    "prefect-gpu check": "a file has an error",
    "prefect-gpu doctor": "something has failed",
    "prefect-gpu anomalies": "a cost was unusual, or the ledger's database cannot be read",
    "prefect-gpu queue": _NO_SERVER,
    "prefect-gpu hold": _NO_SERVER,
    "prefect-gpu release": _NO_SERVER,
    "prefect-gpu move-up": _NO_SERVER,
    "prefect-gpu simulate": "the ledger's database cannot be read",
    "prefect-gpu plan": "no offering fits, or the ledger's database cannot be read",
    "prefect-gpu catalog show": "the system refused to read or to print",
    "prefect-gpu catalog refresh": "no price could be read, or the catalog cannot be written",
    "prefect-gpu cost report": "the ledger's database cannot be read",
    "prefect-gpu cost savings": "the ledger's database cannot be read",
    "prefect-gpu cost export": "the ledger cannot be read, or the file cannot be written",
    "prefect-gpu gpus held": "the system refused to print",
    "prefect-gpu gpus free": "the system refused to free it",
    "prefect-gpu gpus preflight": "it has not passed, and stays held",
    "prefect-gpu gpus history": "the ledger's database cannot be read",
    "prefect-gpu gpus export": "the address cannot be used, or the driver was replaced",
    "prefect-gpu cost reconcile": "the ledger's database cannot be read or written",
    "prefect-gpu optimize": "the ledger's database cannot be read",
    "prefect-gpu optimize show": "the ledger's database cannot be read",
    "prefect-gpu optimize ask": "the ledger's database cannot be read",
    "prefect-gpu optimize undo": "the deployment has changed since, or a server refused",
    "prefect-gpu ledger verify": "a record was changed or is missing, or it cannot be read",
    "prefect-gpu ledger purge": "a record was changed or is missing: nothing was deleted",
    "prefect-gpu spot-replay": "a deadline was missed, or the ledger's database cannot be read",
}
"""The meaning of exit code 1, by command."""


def exit_codes(command: str) -> str:
    """The sentence of `--help` on a command's exit codes."""
    return (
        f"Exit codes: {DONE}: done. {NO}: {MEANING_OF_1[command]}. {WRONG_INPUT}: an argument "
        f"cannot be used, and nothing was changed. {INTERRUPTED}: interrupted."
    )
