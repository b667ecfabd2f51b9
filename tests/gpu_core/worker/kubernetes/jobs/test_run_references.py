"""What comes into a Job by a run's variables, through the stock template and opened ones."""

import copy
import logging
import re
from contextlib import asynccontextmanager
from types import SimpleNamespace
from uuid import UUID

import anyio
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun, WorkPool
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

from gpu_core.decisions.kubernetes.rbac.permitted_references import WorkersOwn
from gpu_core.decisions.kubernetes.variables.variables import parse_pod_request
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.testing.builders.attempts import NOON, make_attempt, make_run
from gpu_core.worker import GpuKubernetesWorker
from gpu_core.worker.attempts.job_configuration import configured
from gpu_core.worker.infrastructure import Refused
from gpu_core.worker.kubernetes.jobs.run_references import RunReferences

ID = UUID(int=1)
OWN = WorkersOwn(namespace="gpu", service_account="gpu-worker")
STRICT = {
    "service_accounts": [],
    "secrets": [],
    "config_maps": [],
    "claims": [],
    "namespaces": [],
    "host_paths": [],
    "pod_fields": [],
}


def policy_with(**lists):
    return parse_policy({"version": 1, "permissions": {"default": lists}})


def stock(**defaults):
    """The template of `setup`, with these defaults of the operator's."""
    template = copy.deepcopy(GpuKubernetesWorker.get_default_base_job_template())
    for name, value in {"namespace": "gpu", "image": "busybox", **defaults}.items():
        template["variables"]["properties"].setdefault(name, {})["default"] = value
    return template


def opened(**fields):
    """One whose pod has these fields, too: what the operator lets runs fill in."""
    template = stock()
    spec = template["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]
    spec.update(fields)
    for name in ("volume_list", "pull_secret", "network", "init", "account"):
        template["variables"]["properties"].setdefault(name, {})
    return template


def held(template, variables, policy, own=OWN):
    """Why a run with these variables is held, when it is read; None: it is not."""
    properties = template["variables"]["properties"]
    defaults = {name: found["default"] for name, found in properties.items() if "default" in found}
    merged = {**defaults, **variables}
    references = RunReferences(SimpleNamespace(), lambda: template, "gpu")
    references.workers_own = own
    workload = Workload(workload_id="w", name="w", priority=1, submitted_at=NOON)
    hold = references.checked(workload, merged, parse_pod_request(merged), policy).hold
    return None if hold is None else hold.summary


@asynccontextmanager
async def no_client():
    """For templates in which nothing has to be looked up."""
    yield SimpleNamespace()


def started(template, variables, policy, new_client=no_client):
    """Start a run with these variables, as far as its manifest.

    Raises:
        Refused: It may not.
    """
    pool = WorkPool(
        id=ID, name="gpu", type="gpu-kubernetes", base_job_template=template, default_queue_id=ID
    )
    run = FlowRun(id=ID, flow_id=ID, name="run", job_variables=variables)
    running = SimpleNamespace(
        attempt=make_attempt(),
        awaited_kinds=(),
        deployment=None,
        record=make_run(flow_run_id=str(ID), name="run", flow_name="train"),
        workload=Workload(workload_id="w", name="w", priority=1, submitted_at=NOON),
    )

    async def start():
        async with new_client() as client:
            await start_with(client)

    async def start_with(client):
        references = RunReferences(client, lambda: template, "gpu")
        references.workers_own = OWN
        configuration = await configured(
            GpuKubernetesWorker.job_configuration,
            run,
            running,
            client=client,
            work_pool=pool,
            worker={"worker_name": "w", "worker_id": ID},
        )
        request = parse_pod_request(variables)
        for _ in range(2):
            await references.require_permitted(running, configuration.job_manifest, request, policy)

    anyio.run(start)


KEY = {"name": "K", "valueFrom": {"secretKeyRef": {"name": "db", "key": "k"}}}
MAP = {"name": "M", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}
VOLUMES = opened(volumes="{{ volume_list }}")


@pytest.mark.parametrize("at_start", [False, True], ids=["when read", "at start"])
@pytest.mark.parametrize(
    ("template", "variables", "want"),
    [
        pytest.param(stock(), {"env": {"A": "1"}, "gpu_count": 1}, None, id="nothing of these"),
        pytest.param(
            stock(), {"service_account_name": "admin"}, "use ServiceAccount 'admin'", id="account"
        ),
        pytest.param(
            stock(service_account_name="trainer"),
            {"service_account_name": "trainer"},
            None,
            id="the account that the template names",
        ),
        pytest.param(
            stock(service_account_name="trainer"),
            {"service_account_name": "gpu-worker"},
            "use ServiceAccount 'gpu-worker', which is reserved for the worker",
            id="another account than the template's",
        ),
        pytest.param(stock(), {"namespace": "gpu"}, None, id="the pool's namespace"),
        pytest.param(
            stock(), {"namespace": "kube-system"}, "run in namespace 'kube-system'", id="namespace"
        ),
        pytest.param(stock(), {"env": [KEY]}, "use Secret 'db'", id="a variable from a Secret"),
        pytest.param(stock(env=[KEY]), {}, None, id="a variable that the template has"),
        pytest.param(
            stock(), {"env": [MAP]}, "use ConfigMap 'c'", id="a variable from a ConfigMap"
        ),
        pytest.param(
            stock(),
            {"volumes": [{"claim": "data", "mount_path": "/d"}]},
            "use PersistentVolumeClaim 'data'",
            id="a claim",
        ),
        pytest.param(
            stock(volumes=[{"claim": "data", "mount_path": "/d"}]),
            {"volumes": [{"claim": "data", "mount_path": "/elsewhere"}]},
            None,
            id="a claim of the pool's default",
        ),
        pytest.param(
            VOLUMES,
            {"volume_list": [{"name": "v", "hostPath": {"path": "/etc"}}]},
            "mount host path '/etc'",
            id="a host path through an opened template",
        ),
        pytest.param(
            VOLUMES,
            {"volume_list": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]},
            "set nfs",
            id="a server's folder",
        ),
        pytest.param(
            opened(imagePullSecrets=[{"name": "{{ pull_secret }}"}]),
            {"pull_secret": "registry"},
            "use Secret 'registry'",
            id="a pull secret",
        ),
        pytest.param(
            opened(imagePullSecrets=[{"name": "pull-{{ pull_secret }}"}]),
            {"pull_secret": "a"},
            "use Secret 'pull-a'",
            id="a part of a name",
        ),
        pytest.param(
            opened(hostNetwork="{{ network }}"), {"network": True}, "set hostNetwork", id="network"
        ),
        pytest.param(opened(hostNetwork=True), {}, None, id="the template's own network"),
        pytest.param(
            opened(initContainers="{{ init }}"),
            {"init": [{"name": "i", "envFrom": [{"secretRef": {"name": "db"}}]}]},
            "use Secret 'db'",
            id="another container",
        ),
        pytest.param(
            opened(securityContext={"fsGroup": 1}, volumes=[{"name": "v", "secret": "{{ init }}"}]),
            {"init.secretName": "db"},
            "use Secret 'db'",
            id="a variable with a dot in its name",
        ),
    ],
)
def test_a_run_brings_no_name_that_is_not_permitted(template, variables, want, at_start):
    policy = policy_with(**STRICT)
    if not at_start:
        summary = held(template, variables, policy)
        assert summary is None if want is None else want in summary
    elif want is None:
        started(template, variables, policy)
    else:
        with pytest.raises(
            Refused, match=f"^Held: a run without a team is not permitted to {want}"
        ):
            started(template, variables, policy)


CLAIM = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]


@pytest.mark.parametrize(
    ("lists", "want"),
    [
        pytest.param({}, "whose devices are not accounted for", id="a policy without the list"),
        pytest.param(
            {"pod_fields": None}, "whose devices are not accounted for", id="any other field"
        ),
        pytest.param({"pod_fields": []}, r"set resourceClaims \(allowed: none", id="no field"),
        pytest.param({"pod_fields": ["resourceClaims"]}, None, id="a list that has it"),
    ],
)
def test_devices_that_the_plan_does_not_count_need_a_list_that_has_them(lists, want):
    template, variables = opened(resourceClaims="{{ init }}"), {"init": CLAIM}
    summary = held(template, variables, policy_with(**lists))
    assert summary is None if want is None else re.search(want, summary)
    assert held(opened(resourceClaims=CLAIM), {}, policy_with(**lists)) is None


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"tolerations": [{"operator": "Exists"}]}, id="tolerations"),
        pytest.param({"shareProcessNamespace": True}, id="shareProcessNamespace"),
        pytest.param(
            {"initContainers": [{"livenessProbe": {"tcpSocket": {"host": "10.0.0.1"}}}]}, id="host"
        ),
    ],
)
def test_a_field_of_the_templates_own_needs_no_permission(spec):
    (field,) = spec
    policy = policy_with(**STRICT)
    assert "is not permitted to set" in held(
        opened(**{field: "{{ init }}"}), {"init": spec[field]}, policy
    )
    assert held(opened(**spec), {}, policy) is None


def test_a_policy_without_lists_warns_of_each_name_once(monkeypatch, caplog):
    monkeypatch.setattr(logging.getLogger("prefect"), "propagate", True)
    variables = {"service_account_name": "admin", "env": [KEY]}
    with (
        caplog.at_level(logging.WARNING),
        temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}),
    ):
        started(stock(), variables, policy_with())
    to_run = [r.message for r in caplog.records if r.name == "prefect.flow_runs.gpu"]
    assert to_run == 2 * [
        "The job variables refer to Secret 'db', ServiceAccount 'admin', which is not "
        "listed in the policy and will be rejected in the next release. To allow it, add it "
        "to permissions.default (secrets, service_accounts)."
    ]
    to_operator = [r.message for r in caplog.records if r.name == "prefect.gpu.permissions"]
    assert to_operator == [
        "Run 'run' refers to Secret 'db', which is not listed in the policy and will be "
        "rejected in the next release. To allow it, add it to permissions.default.secrets.",
        "Run 'run' refers to ServiceAccount 'admin', which is not listed in the policy and "
        "will be rejected in the next release. To allow it, add it to "
        "permissions.default.service_accounts.",
    ]


def test_braces_hide_no_path_from_the_start():
    """When the run is read they may stand for what Prefect resolves later."""
    template = opened(volumes="{{ volume_list }}")
    folder = {"name": "v", "hostPath": {"path": "/var/{{ x }}", "type": "DirectoryOrCreate"}}
    policy = policy_with(**STRICT)
    with pytest.raises(Refused, match=r"is not permitted to mount host path '/var/\{\{ x \}\}'"):
        started(template, {"volume_list": [folder]}, policy)
    own = opened(volumes=[folder])
    started(own, {}, policy)
    assert held(own, {}, policy) is None


@pytest.mark.parametrize(
    ("lists", "want"),
    [
        pytest.param({}, True, id="a policy without the lists"),
        pytest.param({"namespaces": ["gpu-system"], "secrets": []}, True, id="a listed namespace"),
        pytest.param({"secrets": ["prefect"]}, False, id="a listed Secret"),
    ],
)
def test_the_templates_names_are_the_workers_own_in_its_namespace(lists, want):
    """The pool's template means the objects of the pool's namespace."""
    template = stock(env=[{"name": "K", "valueFrom": {"secretKeyRef": {"name": "prefect"}}}])
    own = WorkersOwn(
        namespace="gpu-system", service_account="gpu-worker", secrets=frozenset({"prefect"})
    )
    assert held(template, {}, policy_with(**lists), own) is None
    summary = held(template, {"namespace": "gpu-system"}, policy_with(**lists), own)
    assert (summary is not None) is want
    assert summary is None or "use Secret 'prefect', which is reserved for the worker" in summary


def test_the_workers_own_account_is_refused_by_every_policy():
    for policy in (policy_with(), policy_with(service_accounts=["gpu-worker"])):
        summary = held(stock(), {"service_account_name": "gpu-worker"}, policy)
        assert "which is reserved for the worker" in summary
        assert held(stock(), {"service_account_name": "gpu-worker"}, policy, own=None) is None


@pytest.mark.usefixtures("prefect_server")
def test_what_a_variable_of_prefect_stands_for_is_judged_at_the_start():
    """When the run is read, it is unknown."""
    variables = {"service_account_name": "{{ prefect.variables.run_account }}"}
    template = stock(service_account_name="{{ prefect.variables.pool_account }}")

    async def set_variables(**values):
        async with get_client() as client:
            for name, value in values.items():
                await client._client.post("/variables/", json={"name": name, "value": value})

    anyio.run(lambda: set_variables(run_account="admin", pool_account="trainer"))
    policy = policy_with(**STRICT)
    assert held(template, variables, policy) is None
    with pytest.raises(Refused, match="use ServiceAccount 'admin'"):
        started(template, variables, policy, get_client)
    started(template, {}, policy, get_client)
    started(template, {"service_account_name": "trainer"}, policy, get_client)


def test_a_changed_template_counts_at_once():
    templates = [stock(), stock(service_account_name="trainer")]
    references = RunReferences(SimpleNamespace(), lambda: templates[0], "gpu")
    workload = Workload(workload_id="w", name="w", priority=1, submitted_at=NOON)
    variables = {"service_account_name": "trainer", "namespace": "gpu"}

    def is_held():
        request = parse_pod_request(variables)
        return references.checked(workload, variables, request, policy_with(**STRICT)).hold

    assert is_held() is not None
    templates.pop(0)
    assert is_held() is None


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({"env": 3}, id="a number as the environment"),
        pytest.param({"env.A.B": "1", "env": {"A": "x"}}, id="a value inside of a value"),
        pytest.param({"namespace": None}, id="no namespace"),
        pytest.param({"namespace": ["a"]}, id="a list of namespaces"),
        pytest.param({"service_account_name": {"a": 1}}, id="an object as a name"),
        pytest.param({"labels": {"nodeName": "x"}}, id="a label that is called like a field"),
    ],
)
def test_implausible_values_stop_no_other(variables):
    """Prefect's own checks of the Job say what is wrong with it, when it starts."""
    try:
        held(stock(), variables, policy_with(service_accounts=[], namespaces=None))
    except InvalidInput:
        pytest.fail("only this run's start may fail")
