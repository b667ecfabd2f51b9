"""Start-up checks of settings, policy, state folder and pool, reported together."""

import os
import tempfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

import httpx
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import WorkPool
from prefect.exceptions import ObjectNotFound
from pydantic import ValidationError

from gpu_core.adapters.files.catalog_file import load_sheet
from gpu_core.adapters.files.errnos import REFUSED_PATHS
from gpu_core.adapters.files.private_folder import make_private_folder
from gpu_core.adapters.prefect.internals import missing_parts, unsupported_prefect
from gpu_core.adapters.prefect.request_errors import SLOW_SERVER, is_slow_server, why_failed
from gpu_core.adapters.prefect.work_pool import read_pools, read_queues
from gpu_core.decisions.checks.prefect.pool_commands import setup_command, worker_command
from gpu_core.decisions.model.errors import (
    GpuSchedulingError,
    InvalidInput,
    listed,
    nearest_name,
    sentences,
)
from gpu_core.decisions.model.pydantic_errors import InvalidInputs, input_errors, refuse
from gpu_core.decisions.model.redaction import redact
from gpu_core.worker.startup.settings import GpuWorkerSettings
from gpu_core.worker.watch.policy import PolicySource

_PREFIX = "PREFECT_INTEGRATIONS_GPU_"
_NO_SERVER = "start the Prefect server or correct PREFECT_API_URL"

EXIT_CODE = 2
"""Of a worker that does not start until a person changes something."""


class CannotStart(GpuSchedulingError):
    """The worker ends: a person has to change something first."""


def check_prefect() -> None:
    """Refuse a Prefect that has moved what the worker overrides or uses of it.

    Raises:
        CannotStart: It lacks some, with their names and the releases that have them.
    """
    missing = missing_parts()
    if missing:
        raise CannotStart(unsupported_prefect(missing))


def no_contact(address: str, error: httpx.TransportError) -> str:
    """The sentence of a worker whose first request to Prefect's API has failed."""
    remedy = SLOW_SERVER if is_slow_server(error) else _NO_SERVER
    return sentences(
        f"unable to connect to the Prefect API at {redact(address)}: {why_failed(error)}", remedy
    )


def refusal_in(error: BaseException) -> GpuSchedulingError | None:
    """The error for a person among those that ended the worker; None: it is a failure."""
    if isinstance(error, CannotStart | InvalidInput):
        return error
    if isinstance(error, BaseExceptionGroup):
        found = (refusal_in(each) for each in error.exceptions)
        return next((each for each in found if each is not None), None)
    return None


def read_settings(
    environment: Mapping[str, str],
) -> tuple[GpuWorkerSettings, list[InvalidInput]]:
    """The worker's settings, and what is wrong with them; then they are the defaults.

    Args:
        environment: The variables of this process, in which misspelled settings are looked for.
    """
    mistakes = _misspelled(environment)
    try:
        return GpuWorkerSettings(), mistakes
    except ValidationError as error:
        mistakes += [_as_variable(each) for each in input_errors(error, GpuWorkerSettings)]
    except InvalidInput as error:
        mistakes.append(_as_variable(error))
    return GpuWorkerSettings.model_construct(), mistakes


def check_machine(
    settings: GpuWorkerSettings, mistakes: Iterable[InvalidInput], *, needs_folder: bool
) -> PolicySource:
    """The policy to start with, if all that this machine has for the worker can be used.

    Args:
        settings: The worker's settings.
        mistakes: What is wrong with them, as `read_settings` found.
        needs_folder: Do runs need the state folder?

    Raises:
        InvalidInput: One thing cannot be used.
        InvalidInputs: Several cannot; the message has a line for each.
    """
    refuse(list(mistakes))  # with these the defaults would be looked at
    found: list[InvalidInput] = []
    policies = None
    try:
        policies = PolicySource(settings.policy_path)
    except InvalidInput as error:
        found += error.errors if isinstance(error, InvalidInputs) else [error]
    if settings.prices_path is not None:
        try:
            load_sheet(settings.prices_path)
        except InvalidInput as error:
            found += error.errors if isinstance(error, InvalidInputs) else [error]
    unusable = _unusable(settings.resolved_state_dir()) if needs_folder else None
    if unusable is not None:
        found.append(unusable)
    refuse(found)
    assert policies is not None  # noqa: S101 - otherwise its mistakes were refused
    return policies


async def check_pool(
    client: PrefectClient, name: str, worker_type: str, queues: Collection[str]
) -> None:
    """Is this the pool of such a worker, and does it have these queues?

    Raises:
        InvalidInput: There is no such pool or queue, or the pool is of another type.
    """
    try:
        pool = await client.read_work_pool(name)
    except ObjectNotFound:
        raise _unknown_pool(name, worker_type, await read_pools(client, [worker_type])) from None
    if pool.type != worker_type:
        raise InvalidInput(
            "--type",
            f"is not the type of work pool {name!r}",
            got=worker_type,
            allowed=pool.type,
            remedy=f"start `{worker_command(name, pool.type)}`, or create a pool of this type with "
            f"`{setup_command('NAME', worker_type)}`",
        )
    if queues:
        known = [queue.name for queue in await read_queues(client, name)]
        refuse([_unknown_queue(queue, known) for queue in sorted(set(queues) - set(known))])


def is_pool_missing(error: Exception, name: str) -> bool:
    """Does Prefect's API answer that this work pool is not there?"""
    return (
        isinstance(error, httpx.HTTPStatusError)
        and error.response.status_code == httpx.codes.NOT_FOUND
        and f"/work_pools/{quote(name)}/" in error.request.url.raw_path.decode()
    )


def _unknown_pool(name: str, worker_type: str, pools: Iterable[WorkPool]) -> InvalidInput:
    ours = [pool.name for pool in pools]
    return InvalidInput(
        "--pool",
        "is not a work pool of this Prefect server",
        got=name,
        nearest=nearest_name(name, ours),
        allowed=listed(ours) if ours else f"none, because no pool is of type {worker_type}",
        remedy=f"to create it, run `{setup_command(name, worker_type)}`",
    )


def _unknown_queue(name: str, known: Collection[str]) -> InvalidInput:
    return InvalidInput(
        "--work-queue",
        "is not a queue of this pool",
        got=name,
        nearest=nearest_name(name, known),
        allowed=listed(known),
    )


def _misspelled(environment: Mapping[str, str]) -> list[InvalidInput]:
    """Settings that no worker has: Prefect ignores them, and the default would hold in silence."""
    known = [f"{_PREFIX}{name.upper()}" for name in GpuWorkerSettings.model_fields]
    given = sorted(name for name in environment if name.upper().startswith(_PREFIX))
    return [
        InvalidInput(
            name, "is not a setting", nearest=nearest_name(name, known), allowed=listed(known)
        )
        for name in given
        if name.upper() not in known
    ]


def _as_variable(error: InvalidInput) -> InvalidInput:
    """The same mistake, under the name by which people set it."""
    return InvalidInput(
        f"{_PREFIX}{error.field.upper()}",
        error.problem,
        got=error.got,
        allowed=error.allowed,
        nearest=error.nearest,
        remedy=error.remedy,
    )


def _unusable(folder: Path) -> InvalidInput | None:
    """The reason why no run can be started with this state folder.

    None: one can, or its disk is only full.
    """
    try:
        make_private_folder(folder)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        if error.errno not in REFUSED_PATHS:
            return None
        return InvalidInput(
            f"{_PREFIX}STATE_DIR",
            f"is not a folder that this user can write to: {os.strerror(error.errno or 0)}",
            got=str(folder),
            remedy="name another folder, or change its owner",
        )
