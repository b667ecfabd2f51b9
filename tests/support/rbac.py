"""What RBAC's objects grant, one verb on one resource at a time."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One verb on one resource; with a name only on the object of that name."""

    group: str
    resource: str
    verb: str
    name: str = ""
    namespace: str | None = None
    """None: in all namespaces, and on what is in none."""


def granted(objects: Iterable[Json], account: str) -> tuple[Grant, ...]:
    """What do these bindings and roles grant this ServiceAccount? Each as often as it is said."""
    known = list(objects)
    roles = {
        (item["kind"], item["metadata"]["name"], item["metadata"].get("namespace")): item
        for item in known
        if item["kind"] in ("Role", "ClusterRole")
    }
    found: list[Grant] = []
    for binding in known:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        if account not in {subject["name"] for subject in binding["subjects"]}:
            continue
        namespace = binding["metadata"].get("namespace")
        reference = binding["roleRef"]
        place = namespace if reference["kind"] == "Role" else None
        found += _grants(roles[reference["kind"], reference["name"], place], namespace)
    return tuple(found)


def _grants(role: Json, namespace: str | None) -> Iterator[Grant]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames", [""]):
                        yield Grant(group, resource, verb, name, namespace)
