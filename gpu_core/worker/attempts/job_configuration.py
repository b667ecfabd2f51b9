"""A run's job configuration, made from what the cycle has read already."""

import copy
import shlex
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import Flow, FlowRun, WorkPool
from prefect.settings import Settings
from prefect.settings.context import get_current_settings
from prefect.workers.base import BaseJobConfiguration
from pydantic import ValidationError

from gpu_core.decisions.requests.runs.run_environment import without_workers_own
from gpu_core.decisions.requests.variables.env_variable import (
    env_of_container,
    env_of_process,
    env_of_run,
)
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import Refused


class KnownEnvironment:
    """Mixed in before Prefect's job configuration: its settings are turned into variables once.

    Prefect does it for every run, which takes more CPU than all the rest of a start. Settings of
    the server, among them the address and password of its database, do not reach runs.
    """

    has_env_list: ClassVar[bool] = False
    """Its `env` may be a list, as a container of Kubernetes has it."""
    _known: ClassVar[tuple[Settings, Mapping[str, str]] | None] = None

    @classmethod
    def _base_environment(cls) -> dict[str, str]:
        settings = get_current_settings()
        known = KnownEnvironment._known
        if known is None or known[0] is not settings:
            variables = settings.to_environment_variables(exclude_unset=True)
            known = settings, without_workers_own(variables)
            KnownEnvironment._known = known
        return dict(known[1])


C = TypeVar("C", bound=BaseJobConfiguration)


async def configured(
    kind: type[C],
    flow_run: FlowRun,
    running: AttemptState,
    *,
    client: PrefectClient,
    work_pool: WorkPool,
    worker: Mapping[str, Any],
) -> C:
    """The result of Prefect's `resolve_for_flow_run`, without its requests.

    Deployment and flow are those that the run was planned with. Nothing that is passed in changes.

    Args:
        kind: The class of the pool's job configurations.
        flow_run: The run that starts.
        running: Its attempt, with its deployment.
        client: Resolves references to blocks and variables in the template.
        work_pool: The pool, for its base job template.
        worker: `worker_name` and `worker_id`, for the run's environment and labels.

    Raises:
        Refused: The template with these variables makes no valid configuration.
    """
    deployment = running.deployment
    template = copy.deepcopy(work_pool.base_job_template)
    values = copy.deepcopy(dict(deployment.job_variables or {}) if deployment is not None else {})
    own = copy.deepcopy(dict(flow_run.job_variables or {}))
    env = env_of_run(template, values, own)
    if env is None and isinstance(values.get("env"), dict):
        values["env"].update(own.pop("env", {}))
    values.update(own)
    if env is not None:
        has_list = issubclass(kind, KnownEnvironment) and kind.has_env_list
        env = env_of_container(env) if has_list else env_of_process(env)
        values = _with_env(template, values, env)
    if isinstance(values.get("command"), list):
        # Prefect's configuration knows text only, which it splits as a shell does.
        values["command"] = shlex.join(values["command"])
    try:
        configuration: C = await kind.from_template_and_values(
            base_job_template=template, values=values, client=client
        )
    except ValidationError as error:
        raise Refused(_why_unusable(error)) from error
    flow = Flow(id=flow_run.flow_id, name=running.record.flow_name, labels={})
    configuration.prepare_for_flow_run(flow_run, deployment, flow, work_pool, **worker)
    return configuration


def _why_unusable(error: ValidationError) -> str:
    faults = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
    return (
        f"The pool's base job template is invalid ({'; '.join(faults).lstrip(': ')}). "
        "Please correct the template or the run's job variables."
    )


def _with_env(template: dict[str, Any], values: Mapping[str, Any], env: object) -> dict[str, Any]:
    """The values with this environment in place of all that the template and they say of it."""
    configuration = template["job_configuration"]
    if not isinstance(configuration.get("env"), str):
        configuration["env"] = "{{ env }}"
    properties = template["variables"]["properties"]
    properties["env"] = {k: v for k, v in properties.get("env", {}).items() if k != "default"}
    kept = {name: value for name, value in values.items() if not name.startswith("env.")}
    return {**kept, "env": env}
