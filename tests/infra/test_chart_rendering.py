"""The Helm chart: what it renders is what Kubernetes accepts and what the worker expects."""

import pytest
import yaml

from gpu_core.adapters.host.pod_resources import SOCKET
from gpu_core.cli.gpus.arguments import export
from gpu_core.cli.main import app
from gpu_core.decisions.kubernetes.manifests.names import job_name
from gpu_core.decisions.kubernetes.manifests.priority_class import (
    priority_class_name,
    priority_classes,
)
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.worker.operations.health_routes import LIVE_PATH, READY_PATH
from tests.support.helm import CHART, NAMESPACE, POLICY, REQUIRED, helm, of_kind, render
from tests.support.kubernetes_schemas import schema_errors

ALL_ON = {
    "image": {"repository": "registry.example.com/prefect-gpu", "digest": f"sha256:{'0' * 64}"},
    "imagePullSecrets": [{"name": "registry"}],
    "prefect": {
        "apiUrl": "https://prefect.example.com/api",
        "apiKey": {"existingSecret": "prefect-api", "key": "key"},
        "authString": {"existingSecret": "prefect-auth", "key": "auth"},
    },
    "policy": {
        "version": 1,
        "priorities": {"critical": 1_000_000, "medium": 1000, "Night shift": 10_000_000},
        "kubernetes": {"priority_classes": True, "provisioner": "karpenter", "prepull": ["a:1"]},
    },
    "runs": {
        "namespaces": [
            {"name": "vision", "create": True, "podSecurity": "baseline", "labels": {"team": "v"}},
            {"name": "speech"},
        ],
        "serviceAccount": {"create": True, "name": "gpu-run", "annotations": {"role": "arn:x"}},
        "apiKey": {"existingSecret": "prefect-api", "key": "key"},
        "authString": {"existingSecret": "prefect-auth", "key": "auth"},
    },
    "frameworks": {"ray": True, "kubeflow": True, "spark": True},
    "nodeAnnotations": {"enabled": True},
    "serviceAccount": {"create": True, "name": "scheduler", "annotations": {"role": "arn:y"}},
    "networkPolicy": {
        "enabled": True,
        "healthFrom": [{"namespaceSelector": {}}],
        "extraEgress": [{"ports": [{"port": 5000, "protocol": "TCP"}]}],
    },
    "podAnnotations": {"a": "b"},
    "podLabels": {"c": "d"},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "critical", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "system-cluster-critical",
    "hostNetwork": True,
    "extraEnv": [{"name": "TZ", "value": "UTC"}],
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}],
}
LEAST = {
    "replicas": 1,
    "serviceAccount": {"create": False, "name": "made-by-others"},
    "runs": {
        "namespaces": [{"name": "ml", "create": False}],
        "serviceAccount": {"create": False, "name": "gpu-run"},
    },
    "priorityClasses": {"create": False},
    "podDisruptionBudget": {"enabled": False},
    "probes": {"enabled": False},
    "podSecurityContext": None,
    "affinity": {},
}
EXPORTER = {"nodeExporter": {"enabled": True}, "networkPolicy": {"enabled": True}}
WITH_PODS = {"nodeExporter": {"enabled": True, "podResources": True, "runtimeClassName": ""}}
TABLE = [
    pytest.param({}, id="what is required"),
    pytest.param(ALL_ON, id="all options"),
    pytest.param(LEAST, id="the least"),
    pytest.param(EXPORTER, id="a node exporter"),
    pytest.param(WITH_PODS, id="a node exporter that knows the pods"),
    pytest.param({"policy": POLICY.read_text()}, id="the sample policy"),
]


@pytest.mark.parametrize("values", TABLE)
def test_helm_lint_has_nothing_to_say(values):
    said = helm("lint", "--strict", str(CHART), values=REQUIRED | values)
    assert "1 chart(s) linted, 0 chart(s) failed" in said
    assert "WARNING" not in said


@pytest.mark.parametrize("values", TABLE)
def test_each_object_is_valid_in_every_version(values):
    objects = render(values)
    assert of_kind(objects, "Deployment")
    assert [error for found in objects for error in schema_errors(found)] == []


@pytest.mark.parametrize("values", TABLE)
def test_objects_have_one_place_and_one_name(values):
    names = [
        (found["kind"], found["metadata"].get("namespace"), found["metadata"]["name"])
        for found in render(values)
    ]
    assert len(set(names)) == len(names)
    of_cluster = {kind for kind, namespace, _ in names if namespace is None}
    assert of_cluster <= {"ClusterRole", "ClusterRoleBinding", "Namespace", "PriorityClass"}


def test_two_releases_share_no_object():
    first, second = (
        {
            (found["kind"], found["metadata"].get("namespace"), found["metadata"]["name"])
            for found in render({"runs": {"namespaces": [{"name": "ml"}]}}, f"--namespace={name}")
        }
        for name in ("a", "b")
    )
    # An account of runs in a namespace that both may use belongs to one of them.
    assert first & second == {("ServiceAccount", "ml", "gpu-run")}


def worker(objects):
    """The worker's pod and its container."""
    (deployment,) = of_kind(objects, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return pod, container


@pytest.mark.parametrize(
    ("image", "want"),
    [
        pytest.param({}, "r:0.1.0", id="the chart's version"),
        pytest.param({"tag": "2"}, "r:2", id="a tag"),
        pytest.param({"digest": f"sha256:{'a' * 64}"}, f"r@sha256:{'a' * 64}", id="a digest"),
    ],
)
def test_the_image_is_named_by_tag_or_digest(image, want):
    _, container = worker(render({"image": {"repository": "r"} | image}))
    assert container["image"] == want


def test_no_value_of_a_secret_is_in_any_object():
    _, container = worker(render(ALL_ON))
    from_secrets = {
        item["name"]: item["valueFrom"]["secretKeyRef"]
        for item in container["env"]
        if "valueFrom" in item
    }
    assert from_secrets == {
        "PREFECT_INTEGRATIONS_GPU_LEDGER_URL": {"name": "gpu-worker", "key": "ledger-url"},
        "PREFECT_API_KEY": {"name": "prefect-api", "key": "key"},
        "PREFECT_API_AUTH_STRING": {"name": "prefect-auth", "key": "auth"},
    }
    assert of_kind(render(ALL_ON), "Secret") == []


def test_flows_get_the_key_from_the_secret_of_their_own_namespace():
    _, container = worker(render(ALL_ON))
    plain = {item["name"]: item["value"] for item in container["env"] if "value" in item}
    prefix = "PREFECT_INTEGRATIONS_KUBERNETES_WORKER_API"
    assert {name: value for name, value in plain.items() if name.startswith(prefix)} == {
        f"{prefix}_KEY_SECRET_NAME": "prefect-api",
        f"{prefix}_KEY_SECRET_KEY": "key",
        f"{prefix}_AUTH_STRING_SECRET_NAME": "prefect-auth",
        f"{prefix}_AUTH_STRING_SECRET_KEY": "auth",
    }


@pytest.mark.parametrize("values", [ALL_ON, {"policy": POLICY.read_text()}, {}, LEAST])
def test_the_policy_is_what_the_values_say(values):
    (config,) = of_kind(render(values), "ConfigMap")
    want = values.get("policy", {"version": 1})
    want = yaml.safe_load(want) if isinstance(want, str) else want
    found = yaml.safe_load(config["data"]["policy.yaml"])
    assert found == want
    parse_policy(found)


def test_a_policy_file_is_installed_to_the_letter():
    (config,) = of_kind(render({}, f"--set-file=policy={POLICY}"), "ConfigMap")
    assert config["data"]["policy.yaml"] == POLICY.read_text()


def test_names_of_digits_stay_text():
    values = {
        "ledger": {"existingSecret": "12", "key": "34"},
        "serviceAccount": {"create": True, "name": "56"},
        "priorityClassName": "78",
        "nameOverride": "90",
        "runs": {
            "namespaces": [{"name": "2026", "create": True}],
            "serviceAccount": {"create": True, "name": "11"},
            "apiKey": {"existingSecret": "22", "key": "33"},
        },
        "prefect": {
            "apiUrl": "https://prefect.example.com/api",
            "apiKey": {"existingSecret": "44", "key": "55"},
        },
    }
    for found in render(values):
        assert schema_errors(found) == []


def test_a_policy_may_begin_with_blanks(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("  # ours\nversion: 1\n")
    (config,) = of_kind(render({}, f"--set-file=policy={policy}"), "ConfigMap")
    assert config["data"]["policy.yaml"] == policy.read_text()


@pytest.mark.parametrize(
    "priorities",
    [
        pytest.param(None, id="the policy's own"),
        pytest.param({"medium": 5, "night": 7, "zero": 0}, id="others"),
        pytest.param({"medium": 1, "Night shift": 2, "a_b": 3, "Übung": 4, "x" * 60: 5}, id="odd"),
        pytest.param({"medium": 1_000_000_000}, id="as many points as there may be"),
    ],
)
def test_each_queue_of_the_policy_has_its_priority_class(priorities):
    policy = {"version": 1, "kubernetes": {"priority_classes": True}}
    if priorities is not None:
        policy["priorities"] = priorities
    parsed = parse_policy(policy)
    want = {
        item["metadata"]["name"]: (item["value"], item["preemptionPolicy"])
        for item in priority_classes(parsed.priorities)
    }
    classes = of_kind(render({"policy": policy}), "PriorityClass")
    assert {
        item["metadata"]["name"]: (item["value"], item["preemptionPolicy"]) for item in classes
    } == want
    assert {priority_class_name(queue, parsed.kubernetes) for queue in parsed.priorities} == set(
        want
    )


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"policy": {"version": 1}}, id="pods name no class"),
        pytest.param(
            {"policy": POLICY.read_text(), "priorityClasses": {"create": False}},
            id="another release has them",
        ),
    ],
)
def test_without_need_there_are_no_priority_classes(values):
    assert of_kind(render(values), "PriorityClass") == []


@pytest.mark.parametrize("pool", ["gpu", "GPU pool 1", "p" * 60, "a--b_c", "größer"])
def test_the_lease_is_the_one_that_the_worker_asks_for(pool):
    objects = render({"pool": pool})
    (lease,) = of_kind(objects, "Lease")
    assert lease["metadata"]["name"] == job_name(f"pool-{pool}")
    _, container = worker(objects)
    assert container["args"][:5] == ["prefect", "worker", "start", "--pool", pool]
    variables = {item["name"]: item.get("value") for item in container["env"]}
    assert variables["PREFECT_INTEGRATIONS_GPU_KUBERNETES_NAMESPACE"] == NAMESPACE
    assert lease["metadata"]["namespace"] == NAMESPACE


def test_probes_ask_the_health_server():
    _, container = worker(render())
    assert "--with-healthcheck" in container["args"]
    (port,) = container["ports"]
    variables = {item["name"]: item.get("value") for item in container["env"]}
    assert variables["PREFECT_WORKER_WEBSERVER_PORT"] == str(port["containerPort"])
    paths = {"startupProbe": LIVE_PATH, "livenessProbe": LIVE_PATH, "readinessProbe": READY_PATH}
    for probe, path in paths.items():
        assert container[probe]["httpGet"] == {"path": path, "port": port["containerPort"]}


def test_without_probes_nothing_listens():
    _, container = worker(render(LEAST))
    assert "--with-healthcheck" not in container["args"]
    assert not container.keys() & {"ports", "startupProbe", "livenessProbe", "readinessProbe"}


def test_replicas_prefer_different_nodes_and_one_of_them_stays():
    objects = render()
    pod, _ = worker(objects)
    (deployment,) = of_kind(objects, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    selector = deployment["spec"]["selector"]["matchLabels"]
    assert selector.items() <= labels.items()
    (term,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"]["labelSelector"]["matchLabels"] == selector
    (budget,) = of_kind(objects, "PodDisruptionBudget")
    assert budget["spec"] == {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": selector},
    }


def test_the_worker_keeps_to_the_restricted_standard():
    pod, container = worker(render())
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_cluster_that_chooses_user_ids_gets_none():
    pod, _ = worker(render({"podSecurityContext": {"runAsUser": None, "fsGroup": None}}))
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_namespaces_of_runs_have_a_pod_security_standard_and_stay():
    (namespace,) = of_kind(render(), "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert namespace["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    (vision,) = of_kind(render(ALL_ON), "Namespace")
    assert vision["metadata"]["name"] == "vision"
    assert vision["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "baseline"
    assert vision["metadata"]["labels"]["team"] == "v"


@pytest.mark.parametrize(
    ("url", "want"),
    [
        pytest.param("http://prefect:4200/api", 4200, id="named"),
        pytest.param("https://prefect.example.com/api", 443, id="https"),
        pytest.param("http://prefect/api", 80, id="http"),
    ],
)
def test_the_network_policy_lets_the_worker_reach_what_it_needs(url, want):
    values = {"prefect": {"apiUrl": url}, "networkPolicy": {"enabled": True}}
    objects = render(values)
    (policy,) = of_kind(objects, "NetworkPolicy")
    ports = [[port["port"] for port in rule["ports"]] for rule in policy["spec"]["egress"]]
    assert ports == [[53, 53], [443, 6443], [want], [5432]]
    (ingress,) = policy["spec"]["ingress"]
    assert [port["port"] for port in ingress["ports"]] == [8080]
    (deployment,) = of_kind(objects, "Deployment")
    assert policy["spec"]["podSelector"] == deployment["spec"]["selector"]


@pytest.mark.parametrize(
    "values", [pytest.param({}, id="the least"), pytest.param(ALL_ON, id="all")]
)
def test_the_notes_say_what_to_do_next_for_these_values(values):
    said = helm(
        "install", "gpu", str(CHART), f"--namespace={NAMESPACE}", "--dry-run=client",
        values=REQUIRED | values,
    )  # fmt: skip
    notes = said.partition("NOTES:")[2]
    namespaces = values.get("runs", {"namespaces": [{"name": "prefect-gpu-runs"}]})["namespaces"]
    assert f"kubectl -n {NAMESPACE} rollout status deployment/gpu-prefect-gpu-worker" in notes
    assert (
        f"prefect-gpu setup --pool gpu --type gpu-kubernetes --namespace {namespaces[0]['name']}"
        in notes
    )
    assert (
        f"Runs can use the following namespaces: {', '.join(item['name'] for item in namespaces)}."
        in notes
    )


def node_exporter(values):
    """Its pod and its container."""
    (daemons,) = of_kind(render(values), "DaemonSet")
    pod = daemons["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return pod, container


def test_there_is_no_node_exporter_unless_it_is_asked_for():
    assert of_kind(render(), "DaemonSet") == []


def test_a_node_exporter_meets_the_restricted_standard():
    pod, container = node_exporter(EXPORTER)
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert all("hostPath" not in volume for volume in pod["volumes"])
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert "nvidia.com/gpu" not in str(container["resources"]), "it holds no GPU"


def test_only_for_the_pods_on_gpus_it_is_root_and_reads_one_folder_of_the_host():
    pod, container = node_exporter(WITH_PODS)
    assert pod["securityContext"]["runAsUser"] == 0
    paths = [volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume]
    assert paths == [str(SOCKET.parent)]
    (mount,) = [m for m in container["volumeMounts"] if m["mountPath"] == str(SOCKET.parent)]
    assert mount["readOnly"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("values", [EXPORTER, WITH_PODS])
def test_the_node_exporters_command_is_one_that_there_is(values):
    _, container = node_exporter(values)
    program, *arguments = container["args"]
    command, bound, _ = app.parse_args([a.replace("$(POD_IP)", "10.0.0.1") for a in arguments])
    assert (program, command) == ("prefect-gpu", export)
    assert bound.arguments["port"] == 9401
    assert bound.arguments.get("pod_resources") in (None, SOCKET)


def test_nothing_but_scrapes_reaches_the_node_exporter():
    policies = of_kind(render(EXPORTER), "NetworkPolicy")
    (policy,) = [p for p in policies if p["metadata"]["name"].endswith("-nodes")]
    assert policy["spec"]["egress"] == []
    assert [rule["ports"] for rule in policy["spec"]["ingress"]] == [
        [{"port": 9401, "protocol": "TCP"}]
    ]
