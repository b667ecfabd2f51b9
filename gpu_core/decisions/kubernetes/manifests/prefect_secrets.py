"""Prefect's own keys in the Jobs of flows: from Secrets, not in plain words.

The worker's settings become variables of each flow. A reader of Jobs would read the keys, too.
The settings that name Secrets are those of prefect-kubernetes 0.8 (`KubernetesWorkerSettings`).
"""

from collections.abc import Collection, Mapping

from pydantic import ValidationError

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import input_errors, refuse
from gpu_core.decisions.policy.kubernetes import SecretReference

_PREFIX = "PREFECT_INTEGRATIONS_KUBERNETES_WORKER_"

PREFECT_KEYS: Mapping[str, str] = {
    "PREFECT_API_KEY": "api_key_secret",
    "PREFECT_API_AUTH_STRING": "api_auth_string_secret",
}
"""The variable of each key -> how the settings begin that name its Secret."""

# What a proxy in front of Prefect's API asks for. No setting names a Secret for it.
_HEADERS = "PREFECT_CLIENT_CUSTOM_HEADERS"

_MADE_BY_WORKER = ("create_secret_for_api_key", "store_env_as_secret")


def prefect_secrets(settings: Mapping[str, object]) -> dict[str, SecretReference]:
    """The Secrets that hold Prefect's keys, by the key's variable.

    Args:
        settings: prefect-kubernetes' settings of its worker; those without a meaning here are
            ignored.

    Raises:
        InvalidInput: A setting cannot be used, lacks its other half, or asks for a Secret that
            this worker would have to make: it has no right to.
        InvalidInputs: Several; the message has a line for each.
    """
    asked = (name for name in _MADE_BY_WORKER if settings.get(name))
    errors = [_not_made(name) for name in asked]
    found = {}
    for variable, prefix in PREFECT_KEYS.items():
        given = {part: settings.get(f"{prefix}_{part}") for part in ("name", "key")}
        known = {part: value for part, value in given.items() if value is not None}
        if not known:
            continue
        try:
            found[variable] = SecretReference.model_validate(known)
        except ValidationError as error:
            errors += [_of_setting(each, prefix) for each in input_errors(error, SecretReference)]
    refuse(errors)
    return found


def _not_made(name: str) -> InvalidInput:
    return InvalidInput(
        f"{_PREFIX}{name.upper()}",
        "requires a Secret that is not created by gpu-kubernetes workers",
        remedy="remove it, create the Secret manually and specify it in "
        f"{_setting('PREFECT_API_KEY')}_NAME and _KEY",
    )


def _of_setting(error: InvalidInput, prefix: str) -> InvalidInput:
    error.field = f"{_PREFIX}{prefix.upper()}_{error.field.upper()}"
    if error.problem == "is missing" or error.remedy is None:
        error.remedy = "a key in a Secret requires both _SECRET_NAME and _SECRET_KEY"
    return error


def plain_key_warnings(
    environment: Mapping[str, str], in_secrets: Collection[str]
) -> tuple[str, ...]:
    """The warnings for keys that all who may read pods can read.

    Args:
        environment: What the worker's settings become in each flow.
        in_secrets: The variables that come from Secrets instead.

    Returns:
        A sentence for each key; none: all is well.
    """
    remedies = {variable: f"in {_setting(variable)}_NAME and _KEY" for variable in PREFECT_KEYS}
    remedies[_HEADERS] = "in the policy's kubernetes.secrets"
    return tuple(
        f"{variable} is stored in plain text in every flow's Job and is visible to all "
        f"users with access to Jobs or pods. Specify a Secret that contains it {remedy}."
        for variable, remedy in remedies.items()
        if environment.get(variable) and variable not in in_secrets
    )


def _setting(variable: str) -> str:
    return f"{_PREFIX}{PREFECT_KEYS[variable].upper()}"
