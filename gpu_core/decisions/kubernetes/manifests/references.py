"""References of a manifest beyond its own pod: objects of the namespace, the node, privileges.

Found by the names of fields, wherever they stand: in containers of every kind, in volumes and in
in any object of a later Kubernetes version.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gpu_core.decisions.policy.permissions import Referred
from gpu_core.decisions.policy.pod_fields import REACHING

Json = Mapping[str, Any]


class Reference(NamedTuple):
    """One thing that a manifest refers to."""

    what: Referred
    name: str
    """The object's name, the path, or the name of the field."""
    value: str = ""
    """Of a field, what it says; two values of it are two references."""

    @property
    def is_open(self) -> bool:
        """May Prefect still put another name in the place of this one, when the run starts?"""
        return "{{" in self.name


# Where a name stands in the value of a field (Kubernetes 1.34, core/v1). Fields of other names that
# end in `SecretRef`, such as a CSI volume's, are Secrets, too.
_NAMED: Mapping[str, tuple[Referred, tuple[str, ...]]] = {
    "secret": (Referred.SECRET, ("secretName", "name")),
    "secretKeyRef": (Referred.SECRET, ("name",)),
    "secretRef": (Referred.SECRET, ("name",)),
    "azureFile": (Referred.SECRET, ("secretName",)),
    "imagePullSecrets": (Referred.SECRET, ("name",)),
    "configMap": (Referred.CONFIG_MAP, ("name",)),
    "configMapKeyRef": (Referred.CONFIG_MAP, ("name",)),
    "configMapRef": (Referred.CONFIG_MAP, ("name",)),
    "persistentVolumeClaim": (Referred.CLAIM, ("claimName",)),
    "hostPath": (Referred.HOST_PATH, ("path",)),
}

_ACCOUNTS = ("serviceAccountName", "serviceAccount")

_LOOSENED_BY_FALSE = frozenset({"runAsNonRoot"})
"""Fields that keep a pod from something unless they are false."""

_TIGHT_BY_TYPE = frozenset({"appArmorProfile", "seccompProfile"})
_RUNTIME_DEFAULT = "RuntimeDefault"

_PROFILE_ANNOTATIONS: Mapping[str, str] = {
    "container.apparmor.security.beta.kubernetes.io/": "appArmorProfile",
    "container.seccomp.security.alpha.kubernetes.io/": "seccompProfile",
    "seccomp.security.alpha.kubernetes.io/": "seccompProfile",
}
"""The prefixes of annotations that were used before there were fields: AppArmor's until 1.30 and,
where a kubelet or a node is older, after it."""

# What a volume and a projected volume may be made of without a field of its own below.
_SOURCES = frozenset(
    {
        "configMap",
        "downwardAPI",
        "emptyDir",
        "hostPath",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)

_FREE_KEYS = frozenset({"annotations", "labels", "matchLabels", "nodeSelector"})
"""Fields whose keys are free text, not fields."""


def references(manifest: object) -> frozenset[Reference]:
    """The objects that the fields of this manifest refer to.

    Args:
        manifest: An object of Kubernetes or any part of one, rendered. What is not resolved yet
            (a placeholder of Prefect's) is a name that is open.
    """
    return frozenset(_references(manifest))


def job_references(manifest: Json, namespace: str) -> frozenset[Reference]:
    """The objects that this Job refers to, with the namespace that it is made in.

    Args:
        namespace: Where it is made if it does not say so itself.
    """
    metadata = manifest.get("metadata")
    place = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    own = Reference(Referred.NAMESPACE, str(place or namespace))
    # Prefect gives the Job's annotations to its pods.
    shared = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return references(manifest.get("spec")) | {own, *_of_annotations(shared)}


def _references(value: object) -> Iterator[Reference]:
    if isinstance(value, Mapping):
        yield from _of_annotations(value.get("annotations"))
        if "containers" in value and value.get("resources"):
            yield Reference(Referred.POD_FIELD, "resources", repr(value["resources"]))
        for field, inner in value.items():
            if field not in _FREE_KEYS and not (field == "env" and isinstance(inner, Mapping)):
                yield from _of_field(str(field), inner)
                yield from _references(inner)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _references(item)


def _of_field(field: str, value: object) -> Iterator[Reference]:
    if field in REACHING and _reaches(field, value):
        yield Reference(Referred.POD_FIELD, field, repr(value))
    if value is None or value is False:
        return
    if field in _ACCOUNTS and isinstance(value, str) and value:
        yield Reference(Referred.SERVICE_ACCOUNT, value)
    what, keys = _NAMED.get(field, (None, ()))
    if what is None and field.endswith("SecretRef"):
        what, keys = Referred.SECRET, ("name",)
    if what is not None:
        for item in value if isinstance(value, list) else [value]:
            yield from _named(what, item, keys)
    if field in ("volumes", "sources") and isinstance(value, list):
        for item in value:
            yield from _of_volume(item)


def _reaches(field: str, value: object) -> bool:
    """Does this value reach further than a pod without the field?"""
    if field == "resources":
        return False  # a container's; the pod's stands next to its containers
    if field in _LOOSENED_BY_FALSE:
        return value is not True and value is not None
    if field in _TIGHT_BY_TYPE and isinstance(value, Mapping):
        return value.get("type") not in (None, _RUNTIME_DEFAULT)
    if field == "capabilities" and isinstance(value, Mapping):
        return bool(value.get("add"))  # to drop some reaches nothing
    if isinstance(value, int) and not isinstance(value, bool):
        return True  # 0 is root
    return bool(value)


def _of_annotations(annotations: object) -> Iterator[Reference]:
    """References by annotations that have fields by now."""
    for key, value in annotations.items() if isinstance(annotations, Mapping) else ():
        for prefix, field in _PROFILE_ANNOTATIONS.items():
            if str(key).startswith(prefix) and value not in ("runtime/default", "docker/default"):
                yield Reference(Referred.POD_FIELD, field, f"{key}={value}")


def _named(what: Referred, item: object, keys: Sequence[str]) -> Iterator[Reference]:
    if not isinstance(item, Mapping):
        return
    for key in keys:
        if isinstance(item.get(key), str) and item[key]:
            yield Reference(what, item[key])


def _of_volume(volume: object) -> Iterator[Reference]:
    """Its source, unless that is harmless or refers to what has a name of its own.

    A source that is not known is one of a later version, and reaches who knows where.
    """
    if not isinstance(volume, Mapping):
        return
    for source, value in volume.items():
        if source != "name" and source not in _SOURCES and value is not None:
            yield Reference(Referred.POD_FIELD, str(source), repr(value))
