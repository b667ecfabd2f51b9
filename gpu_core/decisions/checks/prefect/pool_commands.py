"""The commands that messages about a work pool name, ready to be copied into a shell."""

from shlex import quote


def worker_command(pool: str, worker_type: str) -> str:
    """The command that starts a worker of this pool."""
    return f"prefect worker start --pool {quote(pool)} --type {quote(worker_type)}"


def setup_command(pool: str, worker_type: str) -> str:
    """The command that makes this pool."""
    return f"prefect-gpu setup --pool {quote(pool)} --type {quote(worker_type)}"


def resume_command(pool: str, queue: str | None = None) -> str:
    """The command that resumes this paused pool, or this paused queue of it."""
    if queue is None:
        return f"prefect work-pool resume {quote(pool)}"
    return f"prefect work-queue resume {quote(queue)} --pool {quote(pool)}"


def unlimited_command(pool: str, queue: str | None = None) -> str:
    """The command that removes the concurrency limit of this pool, or of this queue of it."""
    if queue is None:
        return f"prefect work-pool clear-concurrency-limit {quote(pool)}"
    return f"prefect work-queue clear-concurrency-limit {quote(queue)} --pool {quote(pool)}"
