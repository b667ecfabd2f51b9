"""Who acts: never two at a time, and the next one soon after the last one died."""

import anyio
import pytest
from aiohttp import web

from gpu_core.adapters.kubernetes.lease import DURATION_S, KubernetesLease
from gpu_core.testing.clock import Clock
from tests.gpu_core.adapters.kubernetes.api_server import serving


class LeaseServer:
    """One object with optimistic locking, as an API server keeps it."""

    def __init__(self):
        self.lease = None
        self.version = 0
        self.is_away = False
        self.is_late = False

    async def handle(self, request):
        if self.is_away:
            return web.json_response({"reason": "Away", "message": "away"}, status=503)
        if self.is_late and request.method == "PUT":
            # A renewal that its holder gave up is heard now, between two requests of the next one.
            self.version += 1
            self.lease["metadata"]["resourceVersion"] = str(self.version)
        if request.method == "GET":
            return self._answer(self.lease)
        body = await request.json()
        is_stale = self.lease is not None and (
            request.method == "POST"
            or body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]
        )
        if is_stale:
            return web.json_response({"reason": "Conflict", "message": "conflict"}, status=409)
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.lease = body
        return self._answer(body)

    @staticmethod
    def _answer(body):
        if body is None:
            return web.json_response({"reason": "NotFound", "message": "none"}, status=404)
        return web.json_response(body)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    clock.advance(1_000)
    monkeypatch.setattr("gpu_core.adapters.kubernetes.lease._now_s", clock)
    return clock


def lease(api, holder):
    return KubernetesLease(api, "default", "pool", holder)


def run(scenario):
    anyio.run(scenario)


def test_the_first_one_gets_it_and_the_second_waits(clock):
    async def scenario():
        async with serving(LeaseServer()) as api:
            first, second = lease(api, "one"), lease(api, "two")
            assert await first.try_once()
            assert not await second.try_once()
            assert second.holder == "one"

    run(scenario)


@pytest.mark.parametrize(
    "spec", [pytest.param({}, id="no spec"), pytest.param({"spec": {}}, id="an empty one")]
)
def test_a_lease_that_an_installation_made_is_taken_by_the_first(clock, spec):
    server = LeaseServer()
    server.lease = {"metadata": {"name": "pool", "labels": {"a": "b"}, "resourceVersion": "0"}}
    server.lease |= spec

    async def scenario():
        async with serving(server) as api:
            assert await lease(api, "one").try_once()
            assert not await lease(api, "two").try_once()

    run(scenario)
    assert server.lease["spec"]["holderIdentity"] == "one"
    assert server.lease["metadata"]["labels"] == {"a": "b"}


def test_a_holder_that_renews_keeps_it_for_ever(clock):
    async def scenario():
        async with serving(LeaseServer()) as api:
            first, second = lease(api, "one"), lease(api, "two")
            for _ in range(20):
                assert await first.try_once()
                assert not await second.try_once()
                clock.advance(2)

    run(scenario)


def test_a_dead_holder_is_followed_after_the_lease_and_not_before(clock):
    async def scenario():
        async with serving(LeaseServer()) as api:
            first, second = lease(api, "one"), lease(api, "two")
            await first.try_once()
            await second.try_once()
            clock.advance(DURATION_S - 0.1)
            assert not await second.try_once()
            clock.advance(0.1)
            assert await second.try_once()
            assert not await first.try_once()

    run(scenario)


def test_a_lease_that_is_refused_is_nobodys_and_says_why(clock):
    async def scenario():
        server = LeaseServer()
        async with serving(server) as api:
            first = lease(api, "one")
            server.is_away = True
            assert not await first.try_once()
            assert first.failure == "away (Away)"
            server.is_away = False
            assert await first.try_once()
            assert first.failure is None

    run(scenario)


def test_who_cannot_renew_stops_before_another_may_begin(clock):
    """The old one is silent for less than the lease, and the new one waits the whole of it."""

    async def scenario():
        server = LeaseServer()
        async with serving(server) as api:
            first = lease(api, "one")
            await first.try_once()
            server.is_away = True
            held_s = 0
            while first.is_held:
                clock.advance(0.5)
                held_s += 0.5
                await first.try_once()
            assert held_s < DURATION_S

    run(scenario)


def test_a_holder_whose_late_renewal_comes_between_keeps_it(clock):
    """The worker lost its lease to itself, and read all logs from their start."""

    async def scenario():
        server = LeaseServer()
        async with serving(server) as api:
            first = lease(api, "one")
            await first.try_once()
            clock.advance(2)
            server.is_late = True
            assert await first.try_once()
            # What was not renewed is not held for longer.
            clock.advance(DURATION_S - 2)
            assert not await first.try_once()

    run(scenario)


def test_a_conflict_gives_the_lease_to_no_other_worker(clock):
    async def scenario():
        server = LeaseServer()
        async with serving(server) as api:
            first, second = lease(api, "one"), lease(api, "two")
            await first.try_once()
            await first.release()
            server.is_late = True
            assert not await second.try_once()

    run(scenario)


def test_a_lease_that_is_given_back_is_free_at_once(clock):
    async def scenario():
        async with serving(LeaseServer()) as api:
            first, second = lease(api, "one"), lease(api, "two")
            await first.try_once()
            await first.release()
            assert not first.is_held
            assert await second.try_once()

    run(scenario)
