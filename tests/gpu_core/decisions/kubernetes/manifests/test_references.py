"""What a manifest refers to is found wherever Kubernetes lets it stand."""

import re

import pytest
from kubernetes_asyncio.client import models

from gpu_core.decisions.kubernetes.manifests.references import Reference, job_references, references
from gpu_core.decisions.policy.permissions import Referred
from gpu_core.decisions.policy.pod_fields import (
    OTHER_SOURCES,
    POD_FIELDS,
    REACHING,
    TABLE,
    FieldSetter,
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


def type_name(kind):
    """A type's name in Kubernetes' reference."""
    return re.sub(r"^(Core)?V1", "", kind)


def rows_of(kind, name):
    return [row for row in TABLE if (row.of, name) == (type_name(kind), name) and name in row.names]


def unjudged(kind, done):
    """The fields of this type, and of those within it, that no row of the table has."""
    done.add(kind)
    for name, inner in attributes(kind):
        if kind in ("V1EphemeralContainer",) or rows_of(kind, name):
            continue
        if not hasattr(models, inner):
            yield f"{type_name(kind)}.{name}"
        elif inner not in done:
            yield from unjudged(inner, done)


def test_every_field_of_a_pod_is_judged():
    """A new version of Kubernetes' models brings new ones here, to be thought about."""
    done = set()
    assert [*unjudged("V1PodSpec", done)] == []
    assert {"V1HTTPGetAction", "V1PodAntiAffinity", "V1SecurityContext", "V1Volume"} - done == {
        "V1PodAntiAffinity"
    }


def test_no_row_is_of_a_field_that_there_is_not():
    known = {
        (type_name(kind), name)
        for kind in dir(models)
        if kind.startswith(("V1", "CoreV1")) and hasattr(getattr(models, kind), "openapi_types")
        for name, _ in attributes(kind)
    }
    rows = [(row.of, name) for row in TABLE for name in row.names]
    assert set(rows) <= known
    assert len(set(rows)) == len(rows)


ASKING = {
    "appArmorProfile": {"type": "Unconfined"},
    "capabilities": {"add": ["SYS_ADMIN"]},
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]},
    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
    "runAsNonRoot": False,
    "seccompProfile": {"type": "Localhost", "localhostProfile": "open.json"},
    "tolerations": [{"operator": "Exists"}],
}
"""Values that reach further than the pod; of other fields true, and 0 for a user."""

PLACES_OF = {
    "Affinity": ("affinity",),
    "ContainerPort": ("containers", "ports"),
    "HTTPGetAction": ("containers", "livenessProbe", "httpGet"),
    "PodSecurityContext": ("securityContext",),
    "PodSpec": (),
    "SecurityContext": ("initContainers", "securityContext"),
    "TCPSocketAction": ("containers", "lifecycle", "postStart", "tcpSocket"),
    "VolumeMount": ("containers", "volumeMounts"),
}


def asked(row, name):
    """A pod's spec in which this field of the row asks for something."""
    value = ASKING.get(name, 0 if name.startswith("runAs") else True)
    found = at("V1PodSpec", (*PLACES_OF[row.of], name), value)
    return {"containers": [], **found}


LISTED_ROWS = [
    pytest.param(row, name, id=f"{row.of}.{name}")
    for row in TABLE
    for name in row.names
    if row.judgment is FieldSetter.LISTED and row.of in PLACES_OF
]


@pytest.mark.parametrize(("row", "name"), LISTED_ROWS)
def test_a_field_that_needs_a_permission_is_found(row, name):
    assert name in {each.name for each in references(asked(row, name))}
    assert name in POD_FIELDS


def test_the_rows_that_need_a_permission_are_all_tried():
    of = {row.of for row in TABLE if row.judgment is FieldSetter.LISTED}
    assert of == {*PLACES_OF, "Volume", "VolumeProjection"}


@pytest.mark.parametrize(
    "row",
    [pytest.param(r, id=f"{r.of}.{r.names[0]}") for r in TABLE if r.judgment is FieldSetter.FREE],
)
def test_a_field_that_is_free_is_no_reference(row):
    assert not {*row.names} & (OTHER_SOURCES if row.of.startswith("Volume") else REACHING)


@pytest.mark.parametrize("kind", ["V1Volume", "V1VolumeProjection"])
def test_every_source_of_a_volume_is_judged(kind):
    for source, _ in attributes(kind):
        if source in ("name", "emptyDir", "downwardAPI", "projected"):
            continue
        if source in ("configMap", "hostPath", "persistentVolumeClaim", "secret"):
            continue  # by what they name
        assert source in POD_FIELDS, source


PROFILES = {
    "container.apparmor.security.beta.kubernetes.io/a": "unconfined",
    "container.seccomp.security.alpha.kubernetes.io/a": "docker/default",
    "example.com/seccomp": "unconfined",
}


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
            id="an unknown source",
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
        pytest.param(
            container(livenessProbe={"httpGet": {"port": 80, "path": "/"}}), set(), id="a probe"
        ),
        pytest.param(
            container(resources={"limits": {"cpu": 1}}), set(), id="resources of a container"
        ),
        pytest.param(
            pod(containers=[], resources={"requests": {"cpu": 64}}),
            {(Referred.POD_FIELD, "resources")},
            id="resources of the pod",
        ),
        pytest.param(
            pod(
                securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
            ),
            set(),
            id="a confined pod",
        ),
        pytest.param(
            {"template": {"metadata": {"annotations": PROFILES}}},
            {(Referred.POD_FIELD, "appArmorProfile")},
            id="a profile by an annotation",
        ),
        pytest.param(pod(tolerations=[], hostNetwork=None), set(), id="no tolerations"),
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


def test_annotations_of_a_job_are_its_pods():
    key = "container.apparmor.security.beta.kubernetes.io/prefect-job"
    found = job_references({"metadata": {"annotations": {key: "unconfined"}}}, "ml")
    assert {each.name for each in found} == {"ml", "appArmorProfile"}


def test_another_value_of_a_field_is_another_reference():
    one, other = (references(pod(priorityClassName=name)) for name in ("low", "urgent"))
    assert not one & other
