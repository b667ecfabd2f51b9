"""Prefect's keys reach a flow from Secrets, and a container job not at all."""

import json

import pytest

from gpu_core.decisions.kubernetes.lint import lint
from gpu_core.decisions.kubernetes.manifests.prefect_secrets import (
    plain_key_warnings,
    prefect_secrets,
)
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.kubernetes import SecretReference
from gpu_core.testing.builders.manifests import (
    build,
    env_of,
    make_kubernetes_policy,
    make_launch,
    template_container,
)

NAMED = {"api_key_secret_name": "prefect", "api_key_secret_key": "key"}
KEY = SecretReference(name="prefect", key="key")
AUTH = SecretReference(name="prefect", key="auth")
KEYS = {"PREFECT_API_KEY": KEY, "PREFECT_API_AUTH_STRING": AUTH}
LITERALS = template_container(
    env=[
        {"name": "PREFECT_API_KEY", "value": "pnu_literal"},
        {"name": "PREFECT_API_AUTH_STRING", "value": "admin:literal"},
    ]
)
FROM_SECRETS = {
    "PREFECT_API_KEY": {"secretKeyRef": {"name": "prefect", "key": "key"}},
    "PREFECT_API_AUTH_STRING": {"secretKeyRef": {"name": "prefect", "key": "auth"}},
}


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        pytest.param({"api_key_secret_name": None, "add_tcp_keepalive": True}, {}, id="none"),
        pytest.param(NAMED, {"PREFECT_API_KEY": KEY}, id="the key"),
        pytest.param(
            {
                **NAMED,
                "api_auth_string_secret_name": "prefect",
                "api_auth_string_secret_key": "auth",
            },
            KEYS,
            id="both",
        ),
    ],
)
def test_which_secrets_the_settings_name(settings, want):
    assert prefect_secrets(settings) == want


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        pytest.param(
            {"api_key_secret_name": "prefect"},
            "WORKER_API_KEY_SECRET_KEY is missing.*requires both",
            id="no key within the Secret",
        ),
        pytest.param(
            {"api_auth_string_secret_key": "auth"},
            "WORKER_API_AUTH_STRING_SECRET_NAME is missing",
            id="no Secret",
        ),
        pytest.param(
            {**NAMED, "api_key_secret_name": "No_Name"},
            "API_KEY_SECRET_NAME is not a name of a Kubernetes object",
            id="not a name",
        ),
        pytest.param(
            {"create_secret_for_api_key": True},
            "WORKER_CREATE_SECRET_FOR_API_KEY requires a Secret.*manually",
            id="a Secret that the worker would make",
        ),
        pytest.param(
            {**NAMED, "store_env_as_secret": True},
            "WORKER_STORE_ENV_AS_SECRET requires a Secret",
            id="a Secret for each run",
        ),
    ],
)
def test_settings_that_would_be_ignored_in_silence_are_refused(settings, want):
    with pytest.raises(InvalidInput, match=want):
        prefect_secrets(settings)


@pytest.mark.parametrize(
    ("environment", "in_secrets", "want"),
    [
        pytest.param({"PREFECT_API_URL": "http://p"}, (), [], id="a server without keys"),
        pytest.param({"PREFECT_API_KEY": "k"}, (), ["PREFECT_API_KEY"], id="in plain words"),
        pytest.param({"PREFECT_API_KEY": "k"}, {"PREFECT_API_KEY"}, [], id="in a Secret"),
        pytest.param({"PREFECT_API_KEY": ""}, (), [], id="an empty key"),
    ],
)
def test_the_operator_is_warned_of_keys_in_plain_words(environment, in_secrets, want):
    found = plain_key_warnings(environment, in_secrets)
    assert [line.split()[0] for line in found] == want
    assert all("_SECRET_NAME and _KEY" in line for line in found)


def test_the_operator_is_warned_of_headers_in_plain_words():
    headers = {"PREFECT_CLIENT_CUSTOM_HEADERS": '{"CF-Access-Client-Secret": "s"}'}
    (found,) = plain_key_warnings(headers, ())
    assert found.endswith("Specify a Secret that contains it in the policy's kubernetes.secrets.")
    assert plain_key_warnings(headers, headers) == ()


@pytest.mark.parametrize(
    ("launch", "version"),
    [
        pytest.param({}, "1.34", id="one pod"),
        pytest.param({"nodes": 2, "variables": {"container_command": "./w"}}, "1.34", id="a gang"),
        pytest.param(
            {"nodes": 2, "variables": {"container_command": "./w"}}, "1.20", id="a Job for a node"
        ),
    ],
)
def test_every_pod_of_a_flow_has_the_keys_from_secrets(launch, version):
    jobs = build(make_launch(prefect_secrets=KEYS, **launch), LITERALS, version=version).jobs
    assert [FROM_SECRETS.items() <= env_of(job).items() for job in jobs] == [True] * len(jobs)
    assert "literal" not in json.dumps(jobs)
    found = [
        each.code for job in jobs for each in lint(job, make_kubernetes_policy(version=version))
    ]
    assert "literal-secret" not in found


def test_a_key_in_plain_words_is_found_by_our_own_rules():
    (job,) = build(manifest=LITERALS).jobs
    assert [each.code for each in lint(job, make_kubernetes_policy())].count("literal-secret") == 2


def test_the_policys_secret_comes_first():
    policy = {"secrets": {"PREFECT_API_KEY": {"name": "theirs", "key": "k"}}}
    (job,) = build(make_launch(prefect_secrets=KEYS), LITERALS, **policy).jobs
    assert env_of(job)["PREFECT_API_KEY"] == {"secretKeyRef": {"name": "theirs", "key": "k"}}


def test_a_container_job_gets_no_key_of_prefects():
    secrets = {
        "PREFECT_API_KEY": {"name": "prefect", "key": "key"},
        "HF_TOKEN": {"name": "hf", "key": "token"},
    }
    launch = make_launch(
        is_flow=False, prefect_secrets=KEYS, variables={"container_command": "true"}
    )
    (job,) = build(launch, LITERALS, secrets=secrets).jobs
    env = env_of(job)
    assert not KEYS.keys() & env.keys()
    assert env["HF_TOKEN"] == {"secretKeyRef": {"name": "hf", "key": "token"}}
