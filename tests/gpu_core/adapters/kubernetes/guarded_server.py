"""An API server on the loopback interface that keeps to RBAC, and notes which rights were used."""

import asyncio
import re
from typing import NamedTuple

from aiohttp import web

_PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<part>[^/]+))?"
)
OF_WORKER, OF_RUNS = "gpu-system", "ml"
"""The namespaces of the worker and of its runs."""

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Asked(NamedTuple):
    """A request in the words of RBAC."""

    verb: str
    group: str
    resource: str
    namespace: str | None
    name: str | None


def asked_for(request) -> Asked:
    """What does this request want to do?"""
    found = _PATH.fullmatch(request.path)
    assert found is not None, request.path
    namespace, name = found["namespace"], found["name"]
    resource = "/".join(filter(None, (found["plural"], found["part"])))
    verb = _VERBS.get(request.method)
    if verb is None:
        is_watch = request.query.get("watch") == "true"
        verb = "get" if name else "watch" if is_watch else "list"
    return Asked(verb, found["group"] or "", resource, namespace, name)


class GuardedServer:
    """Has nothing but what was created here, and does what its rights allow.

    Args:
        rights: Those of `gpu_core.decisions.kubernetes.rbac.rights` that the client has.
    """

    def __init__(self, rights):
        self.rights = tuple(rights)
        self.objects = {}
        self.used = set()
        self.refused = []

    async def handle(self, request):
        asked = asked_for(request)
        right = next((each for each in self.rights if _allows(each, asked)), None)
        if right is None:
            self.refused.append(asked)
            return _status(403, "Forbidden", _words(asked))
        self.used.add(right)
        if asked.verb == "watch":
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.Event().wait()  # until the client goes
        return await self._answer(request, asked)

    async def _answer(self, request, asked):
        if asked.resource == "pods/log":
            return web.Response(text="the last line\n")
        if asked.verb == "list":
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
        if asked.verb == "create":
            body = await request.json()
            metadata = body["metadata"]
            name = metadata.get("name") or f"{metadata['generateName']}x7k2p"
            path = f"{request.path}/{name}"
            if path in self.objects:
                return _status(409, "AlreadyExists", "it is there")
            self.objects[path] = _made(body)
            return web.json_response(self.objects[path])
        if asked.verb == "get":
            found = self.objects.get(request.path)
            return _status(404, "NotFound", "no") if found is None else web.json_response(found)
        if asked.verb == "update":
            self.objects[request.path] = await request.json()
        return web.json_response(self.objects.get(request.path, {}))


def _made(body):
    metadata = {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", **body["metadata"]}
    return {**body, "metadata": metadata}


def _allows(right, asked):
    if (right.verb, right.group, right.resource) != asked[:3]:
        return False
    if not right.is_cluster_wide:
        place = OF_WORKER if right.is_of_worker else OF_RUNS
        if asked.namespace != place:
            return False
    return right.name in (None, asked.name)


def _status(code, reason, message):
    return web.json_response({"kind": "Status", "reason": reason, "message": message}, status=code)


def _words(asked):
    """As Kubernetes' authorization says it (1.34)."""
    place = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    return (
        f'{asked.resource} is forbidden: User "worker" cannot {asked.verb} resource '
        f'"{asked.resource}" in API group "{asked.group}" {place}'
    )
