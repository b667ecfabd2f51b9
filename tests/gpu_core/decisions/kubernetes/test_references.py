"""What a manifest refers to is found wherever Kubernetes lets it stand."""

import re

import pytest
from kubernetes_asyncio.client import models

from gpu_core.decisions.kubernetes.references import (
    POD_FIELDS,
    Reference,
    Referred,
    job_references,
    references,
)

LEAVES = {
    "V1AzureFileVolumeSource": "secretName",
    "V1ConfigMapEnvSource": "name",
    "V1ConfigMapKeySelector": "name",
    "V1ConfigMapProjection": "name",
    "V1ConfigMapVolumeSource": "name",
    "V1HostPathVolumeSource": "path",
    "V1LocalObjectReference": "name",
    "V1PersistentVolumeClaimVolumeSource": "claimName",
    "V1SecretEnvSource": "name",
    "V1SecretKeySelector": "name",
    "V1SecretProjection": "name",
    "V1SecretReference": "name",
    "V1SecretVolumeSource": "secretName",
}
"""The types of Kubernetes' API that name another object or a path, with the field that does."""


def attributes(kind):
    """The fields of a type, by their names in JSON, each with its own type."""
    model = getattr(models, kind)
    for name, type_name in model.openapi_types.items():
        yield model.attribute_map[name], re.sub(r"^list\[(.*)\]$", r"\1", type_name)


def places(kind, path=(), inside=()):
    """Every way from this type to one that names something."""
    for name, type_name in attributes(kind):
        here = (*path, name)
        if type_name in LEAVES:
            yield (*here, LEAVES[type_name])
        elif hasattr(models, type_name) and type_name not in inside:
            yield from places(type_name, here, (*inside, type_name))


def is_list(kind, name):
    model = getattr(models, kind)
    key = next(key for key, value in model.attribute_map.items() if value == name)
    return model.openapi_types[key].startswith("list")


def at(kind, path, value):
    """An object of this type that says only this."""
    name, *rest = path
    if not rest:
        return {name: value}
    inner = at(dict(attributes(kind))[name], rest, value)
    return {name: [inner] if is_list(kind, name) else inner}


PLACES = sorted(set(places("V1PodSpec")))


@pytest.mark.parametrize("path", [pytest.param(path, id=".".join(path)) for path in PLACES])
def test_no_place_for_a_name_is_missed(path):
    """As kubernetes_asyncio's models have them, which are made from Kubernetes' own schema."""
    found = references(at("V1PodSpec", path, "named-here"))
    source = path[1] if path[0] == "volumes" else None
    assert {each.name for each in found} & {"named-here", source}


def test_there_are_places():
    assert len(PLACES) >= 28
    assert ("imagePullSecrets", "name") in PLACES


HARMLESS = frozenset(
    {
        *("activeDeadlineSeconds", "affinity", "containers", "dnsConfig", "dnsPolicy"),
        *("enableServiceLinks", "ephemeralContainers", "hostAliases", "hostname"),
        *("hostnameOverride", "imagePullSecrets", "initContainers", "nodeSelector", "os"),
        *("overhead", "preemptionPolicy", "priority", "readinessGates", "resources"),
        *("restartPolicy", "schedulingGates", "securityContext", "serviceAccount"),
        *("serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace", "subdomain"),
        *("terminationGracePeriodSeconds", "tolerations", "topologySpreadConstraints", "volumes"),
        # Only to keep a pod further from the node than it is by default.
        "hostUsers",
    }
)
"""What any run may say of its pods, or what is judged by what stands in it."""


def test_every_field_of_a_pod_is_judged():
    """A new version of Kubernetes' models brings new ones here, to be thought about."""
    assert {name for name, _ in attributes("V1PodSpec")} <= HARMLESS | POD_FIELDS


@pytest.mark.parametrize("kind", ["V1Volume", "V1VolumeProjection"])
def test_every_source_of_a_volume_is_judged(kind):
    for source, _ in attributes(kind):
        if source in ("name", "emptyDir", "downwardAPI", "projected"):
            continue
        if source in ("configMap", "hostPath", "persistentVolumeClaim", "secret"):
            continue  # by what they name
        assert source in POD_FIELDS, source


def pod(**spec):
    return {"spec": {"template": {"spec": spec}}}


def container(**fields):
    return pod(containers=[{"name": "prefect-job", **fields}])


@pytest.mark.parametrize(
    ("manifest", "want"),
    [
        pytest.param(pod(serviceAccountName="a"), {(Referred.SERVICE_ACCOUNT, "a")}, id="account"),
        pytest.param(pod(serviceAccountName=None), set(), id="no account"),
        pytest.param(
            container(
                env=[{"name": "K", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
            ),
            {(Referred.SECRET, "s")},
            id="a variable from a Secret",
        ),
        pytest.param(container(env={"nodeName": "n", "privileged": "1"}), set(), id="plain env"),
        pytest.param(
            {"metadata": {"labels": {"nodeName": "x"}}, **pod(nodeSelector={"hostPID": "y"})},
            set(),
            id="labels that are called like fields",
        ),
        pytest.param(
            pod(volumes=[{"name": "v", "hostPath": {"path": "/etc"}}]),
            {(Referred.HOST_PATH, "/etc")},
            id="a folder of the node",
        ),
        pytest.param(
            pod(volumes=[{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}]),
            {(Referred.SECRET, "s")},
            id="a projected Secret",
        ),
        pytest.param(
            pod(
                volumes=[
                    {
                        "name": "v",
                        "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]},
                    }
                ]
            ),
            {(Referred.POD_FIELD, "serviceAccountToken")},
            id="a projected token",
        ),
        pytest.param(
            pod(volumes=[{"name": "v", "csi": {"nodePublishSecretRef": {"name": "s"}}}]),
            {(Referred.POD_FIELD, "csi"), (Referred.SECRET, "s")},
            id="a driver's volume with a Secret",
        ),
        pytest.param(
            pod(volumes=[{"name": "v", "ofTheFuture": {}}]),
            {(Referred.POD_FIELD, "ofTheFuture")},
            id="a source that nobody knows",
        ),
        pytest.param(
            pod(volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "downwardAPI": {}}]),
            set(),
            id="harmless volumes",
        ),
        pytest.param(
            container(securityContext={"privileged": True, "capabilities": {"drop": ["ALL"]}}),
            {(Referred.POD_FIELD, "privileged")},
            id="privileged",
        ),
        pytest.param(
            container(securityContext={"privileged": False, "capabilities": {"add": []}}),
            set(),
            id="not privileged",
        ),
        pytest.param(
            container(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}),
            {(Referred.POD_FIELD, "capabilities")},
            id="a capability",
        ),
        pytest.param(pod(hostNetwork=True), {(Referred.POD_FIELD, "hostNetwork")}, id="network"),
        pytest.param(pod(hostNetwork=False), set(), id="not the node's network"),
        pytest.param(
            container(ports=[{"containerPort": 1, "hostPort": 1}]),
            {(Referred.POD_FIELD, "hostPort")},
            id="a port of the node",
        ),
        pytest.param(pod(volumes="text", imagePullSecrets=3, containers={}), set(), id="nonsense"),
    ],
)
def test_what_a_manifest_refers_to(manifest, want):
    assert {(each.what, each.name) for each in references(manifest)} == want


@pytest.mark.parametrize(
    ("name", "want"), [("{{ prefect.variables.account }}", True), ("trainer", False)]
)
def test_a_name_that_is_not_resolved_yet_is_open(name, want):
    (found,) = references(pod(serviceAccountName=name))
    assert found.is_open is want


@pytest.mark.parametrize(
    ("metadata", "want"),
    [
        pytest.param({"namespace": "other"}, "other", id="its own"),
        pytest.param({}, "ml", id="the pool's"),
        pytest.param(None, "ml", id="no metadata"),
    ],
)
def test_a_job_is_in_a_namespace(metadata, want):
    found = job_references({"metadata": metadata}, "ml")
    assert found == {Reference(Referred.NAMESPACE, want)}


def test_another_value_of_a_field_is_another_reference():
    one, other = (references(pod(priorityClassName=name)) for name in ("low", "urgent"))
    assert not one & other
