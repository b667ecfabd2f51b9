"""A server on the loopback interface that says what an API server may say at the worst moment.

The real one runs in tests/cluster; but it cannot be asked to forget a version, to cut a watch in
the middle of a line, or to refuse a page.
"""

import asyncio
import json
from contextlib import asynccontextmanager

from aiohttp import web
from kubernetes_asyncio.client import ApiClient, Configuration

from gpu_core.adapters.kubernetes import KubernetesApi

CUT = object()


class ScriptedServer:
    """Answers lists with `items`, watches with what is put into `events`."""

    def __init__(self):
        self.items = {}
        self.version = 10
        self.events = asyncio.Queue()
        self.lists = 0
        self.watched_from = []
        self.refusals = []
        self.page_size = 500

    def add(self, name, **fields):
        self.version += 1
        item = {
            "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(self.version)},
            **fields,
        }
        self.items[name] = item
        return item

    def remove(self, name):
        self.version += 1
        item = self.items.pop(name)
        item["metadata"]["resourceVersion"] = str(self.version)
        return item

    def emit(self, kind, item):
        self.events.put_nowait({"type": kind, "object": item})

    def cut(self):
        self.events.put_nowait(CUT)

    async def handle(self, request):
        if self.refusals:
            status, body = self.refusals.pop(0)
            return web.json_response(body, status=status)
        if request.query.get("watch") == "true":
            return await self._watch(request)
        self.lists += 1
        start = int(request.query.get("continue") or 0)
        names = sorted(self.items)[start : start + self.page_size]
        more = start + self.page_size < len(self.items)
        metadata = {"resourceVersion": str(self.version)}
        if more:
            metadata["continue"] = str(start + self.page_size)
        return web.json_response(
            {"metadata": metadata, "items": [self.items[name] for name in names]}
        )

    async def _watch(self, request):
        self.watched_from.append(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            event = await self.events.get()
            if event is CUT:
                request.transport.abort()
                return response
            await response.write(json.dumps(event).encode() + b"\n")


@asynccontextmanager
async def serving(server):
    """The server, and a client of it."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    # A handler ends with its connection, as a kubelet's does.
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    api = KubernetesApi(ApiClient(Configuration(host=f"http://127.0.0.1:{port}")))
    try:
        yield api
    finally:
        await api.close()
        await runner.cleanup()
