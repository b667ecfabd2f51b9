"""The work pool and its queues, as they should be."""

from collections.abc import Mapping, Sequence
from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.objects import WorkPool
from prefect.exceptions import ObjectNotFound
from prefect.types.names import BANNED_CHARACTERS

from gpu_core.adapters.prefect.work_pool import read_queues
from gpu_core.cli.project.file import is_template
from gpu_core.cli.setup.options import SetupOptions
from gpu_core.cli.setup.session import Session, say
from gpu_core.decisions.kubernetes.variables.prefect_fields import without_fields_not_offered
from gpu_core.decisions.kubernetes.variables.variables import parse_pod_request
from gpu_core.decisions.model.errors import InvalidInput, listed
from gpu_core.decisions.model.pydantic_errors import mistakes_in, refuse
from gpu_core.decisions.policy.policy import PREFECT_DEFAULT_QUEUE
from gpu_core.decisions.requests.variables.compact_schema import compact_form
from gpu_core.decisions.requests.variables.env_variable import variable_defaults
from gpu_core.worker import WORKERS, GpuKubernetesWorker, GpuProcessWorker

# Job variables of a cluster's pool whose defaults are options too.
_DEFAULTS = ("namespace", "image", "service_account_name")


def check_pool_name(name: str) -> None:
    """Refuse what cannot be the name of a work pool.

    Raises:
        InvalidInput: It is empty or contains an invalid character.
    """
    if not name.strip():
        raise InvalidInput(
            "--pool", "is empty", remedy="if you omit this option, the `gpu` pool will be used"
        )
    if any(character in name for character in BANNED_CHARACTERS):
        allowed = f"text without {' '.join(BANNED_CHARACTERS)}"
        raise InvalidInput("--pool", "is not a valid work pool name", got=name, allowed=allowed)


async def read_pool(client: PrefectClient, name: str) -> WorkPool | None:
    """The work pool of this name; None: there is none."""
    try:
        return await client.read_work_pool(name)
    except ObjectNotFound:
        return None


def checked_type(pool: WorkPool | None, options: SetupOptions) -> str:
    """The type of the pool, as it is or will be.

    Raises:
        InvalidInput: The pool has another type, or an option is for pools of another type.
    """
    wanted = options.worker_type
    if pool is not None and (pool.type not in WORKERS or wanted not in (None, pool.type)):
        raise InvalidInput(
            "pool",
            f"{options.pool!r} already exists with a different type",
            got=pool.type,
            allowed=wanted or listed(WORKERS),
            remedy="please choose a different name with --pool",
        )
    pool_type = wanted or GpuProcessWorker.type if pool is None else pool.type
    given = [name for name in _DEFAULTS if getattr(options, name) is not None]
    if given and pool_type != GpuKubernetesWorker.type:
        raise InvalidInput(
            given[0],
            f"is not a variable of a pool of type {pool_type}",
            allowed=f"a pool of type {GpuKubernetesWorker.type}",
            remedy="please specify a different pool with --pool or omit this option",
        )
    return pool_type


def check_defaults(pool: WorkPool | None) -> None:
    """Refuse a pool of a cluster whose template has defaults that no run can use.

    Raises:
        InvalidInput: One cannot be used; the field is its place in the template.
        InvalidInputs: Several cannot.
    """
    if pool is None or pool.type != GpuKubernetesWorker.type:
        return
    given = variable_defaults(pool.base_job_template)
    defaults = {name: value for name, value in given.items() if not is_template(value)}
    refuse(
        [
            error.at(f"work pool {pool.name}: variables.{error.field} default")
            for error in mistakes_in(lambda: parse_pod_request(defaults, defaults))
        ]
    )


async def have_pool(
    session: Session, options: SetupOptions, pool: WorkPool | None, pool_type: str
) -> None:
    """Have the pool with all job variables of its type; edits of its form are kept."""
    name = options.pool
    newest = WORKERS[pool_type].get_default_base_job_template()
    if pool is None:
        template, _ = _with_defaults(newest, options)
        new_pool = WorkPoolCreate(name=name, type=pool_type, base_job_template=template)
        if not session.dry_run:
            await session.client.create_work_pool(new_pool)
        say("+", f"work pool {name}", f"{session.did('created')} with type {pool_type}")
        return
    template, removed = pool.base_job_template, list[str]()
    if pool_type == GpuKubernetesWorker.type:
        template, removed = without_fields_not_offered(template)
    template, new = _with_missing_variables(template, newest)
    template, is_shorter = _with_compact_form(template)
    template, changed = _with_defaults(template, options)
    news = [f"new job variables: {', '.join(new)}"] if new else []
    news += [f"{', '.join(removed)} {session.did('removed')}: not supported"] if removed else []
    news += (
        [f"variables schema {session.did('shortened')} to speed up run creation"]
        if is_shorter
        else []
    )
    news += [f"default of {', '.join(changed)} {session.did('changed')}"] if changed else []
    if not news:
        say("=", f"work pool {name}", "unchanged")
        return
    if not session.dry_run:
        await session.client.update_work_pool(name, WorkPoolUpdate(base_job_template=template))
    say("~", f"work pool {name}", "; ".join(news))


def _with_missing_variables(
    current: dict[str, Any], new: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """The template with the variables of the new one that it lacks, and their names.

    A pool keeps the form it was made with: what is new is put in, edits are kept.
    """
    properties = _properties(current)
    missing = {name: schema for name, schema in _properties(new).items() if name not in properties}
    return _with_properties(current, {**properties, **missing}), sorted(missing)


def _with_compact_form(template: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The template with the compact form of its variables, and whether that is another one."""
    form = template.get("variables", {})
    compact = compact_form(form)
    return {**template, "variables": compact}, compact != form


def _with_defaults(
    template: dict[str, Any], options: SetupOptions
) -> tuple[dict[str, Any], list[str]]:
    """The template with the defaults that are given, and the names of those that change."""
    properties = _properties(template)
    changed = {
        name: {**properties.get(name, {}), "default": value}
        for name in _DEFAULTS
        if (value := getattr(options, name)) is not None
        and properties.get(name, {}).get("default") != value
    }
    return _with_properties(template, {**properties, **changed}), sorted(changed)


def _properties(template: Mapping[str, Any]) -> dict[str, Any]:
    return dict(template.get("variables", {}).get("properties", {}))


def _with_properties(template: dict[str, Any], properties: dict[str, Any]) -> dict[str, Any]:
    return {**template, "variables": {**template.get("variables", {}), "properties": properties}}


async def have_queues(
    session: Session, pool: WorkPool | None, options: SetupOptions, names: Sequence[str]
) -> None:
    """Have a queue for each priority, the most urgent first; name those of no priority."""
    client = session.client

    async def priorities() -> dict[str, tuple[Any, int | None]]:
        if pool is None and session.dry_run:
            return {}
        queues = await read_queues(client, options.pool)
        return {queue.name: (queue.id, queue.priority) for queue in queues}

    existing = await priorities()
    for priority, name in enumerate(names, start=1):
        label = f"work queue {name}"
        if name not in existing:
            if not session.dry_run:
                await client.create_work_queue(
                    name=name, work_pool_name=options.pool, priority=priority
                )
                # The server moves the others.
                existing = await priorities()
            say("+", label, f"{session.did('created')}, priority {priority}")
            continue
        queue_id, current = existing[name]
        if current == priority:
            say("=", label, "unchanged")
            continue
        if not session.dry_run:
            await client.update_work_queue(queue_id, priority=priority)
            existing = await priorities()
        say("~", label, f"priority {current} -> {priority}")
    for name in sorted({*existing} - {*names, PREFECT_DEFAULT_QUEUE}):
        why = (
            "not defined in the policy, so its runs will be held with reason UnknownQueue. "
            "Please add it to `priorities`"
        )
        say("!", f"work queue {name}", f"{why} or delete the queue")
