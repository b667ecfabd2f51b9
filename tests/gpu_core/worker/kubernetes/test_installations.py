"""Two installations of one pool: one acts, whatever dies, sleeps or loses its connections."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import anyio
import pytest
from prefect.exceptions import ObjectAlreadyExists
from sqlalchemy.exc import OperationalError

from gpu_core.adapters.kubernetes.lease import KubernetesLease
from gpu_core.adapters.ledger import Ledger, PoolNotOurs
from gpu_core.adapters.prefect import pool_claims
from gpu_core.decisions.checks.prefect.pool_claim import DURATION_S, Installation
from gpu_core.testing.builders.attempts import make_attempt, make_run
from gpu_core.testing.clock import Clock
from gpu_core.worker.kubernetes.leadership import leadership as module
from gpu_core.worker.kubernetes.leadership.installation_claim import InstallationClaim
from gpu_core.worker.kubernetes.leadership.leadership import ClusterLeadership, LedPool

ONE = Installation(cluster="c1", namespace="one")
TWO = Installation(cluster="c1", namespace="two")


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    clock.advance(1_000)
    monkeypatch.setattr("gpu_core.worker.kubernetes.leadership.installation_claim._now_s", clock)
    return clock


@pytest.fixture
def new_ledger(tmp_path):
    """Connections to one ledger, a separate one for each worker."""
    opened = []

    def new():
        opened.append(Ledger.open(f"sqlite:///{tmp_path}/ledger.db"))
        return opened[-1]

    yield new
    for ledger in opened:
        ledger.close()


def claim(ledger, installation, holder="w", pool_id="id"):
    return InstallationClaim(in_ledger(ledger), lambda: pool_id, "gpu", installation, holder)


def in_ledger(ledger):
    async def claim_pool(wanted, instead_of):
        return ledger.claim_pool(wanted, instead_of)

    return claim_pool


def tried(*claims):
    """Which of them acts after each has asked once?"""
    return [anyio.run(each.try_once) for each in claims]


def test_the_second_installation_waits_for_as_long_as_the_first_renews(clock, new_ledger):
    first, second = claim(new_ledger(), ONE), claim(new_ledger(), TWO)
    for _ in range(3 * DURATION_S // 15):
        assert tried(first, second) == [True, False]
        clock.advance(15)
    assert second.other.installation == ONE


def test_the_second_acts_when_the_first_has_not_renewed_for_the_whole_time(clock, new_ledger):
    first, second = claim(new_ledger(), ONE), claim(new_ledger(), TWO)
    tried(first, second)
    clock.advance(DURATION_S - 0.1)
    assert tried(second) == [False]
    assert not first.is_held, "the first stops long before the second begins"
    clock.advance(0.1)
    assert tried(second, first) == [True, False]
    assert first.other.installation == TWO


def test_the_standby_of_the_same_installation_takes_the_claim_over_at_once(clock, new_ledger):
    killed, standby, second = (claim(new_ledger(), each) for each in (ONE, ONE, TWO))
    tried(killed, second)
    clock.advance(DURATION_S - 1)
    assert tried(standby) == [True]
    clock.advance(DURATION_S - 1)
    assert tried(second) == [False]


def test_a_watcher_that_was_suspended_takes_nothing_that_was_renewed_meanwhile(clock, new_ledger):
    first, second = claim(new_ledger(), ONE), claim(new_ledger(), TWO)
    tried(first, second)
    tried(first)
    clock.advance(10 * DURATION_S)
    assert tried(second) == [False]


def test_a_holder_that_was_suspended_opens_no_attempt(clock, new_ledger):
    ledger = new_ledger()
    first, second = claim(ledger, ONE), claim(new_ledger(), TWO)
    tried(first, second)
    clock.advance(DURATION_S)
    tried(second)
    # It has not asked since: its own last word is that it acts.
    assert first.is_ours
    with pytest.raises(PoolNotOurs):
        ledger.admit([(make_run(), make_attempt())])


def test_a_ledger_that_is_away_takes_the_right_to_change_things_and_not_the_lead(
    clock, new_ledger, monkeypatch
):
    ledger = new_ledger()
    first = claim(ledger, ONE)
    tried(first)

    def away(*_):
        raise OperationalError("claim", {}, OSError("away"))

    monkeypatch.setattr(ledger, "claim_pool", away)
    clock.advance(DURATION_S / 2)
    with pytest.raises(OperationalError):
        tried(first)
    assert (anyio.run(first.acquire), first.is_held) == (True, False)
    monkeypatch.undo()


def test_a_pool_that_is_made_anew_is_claimed_anew(clock, new_ledger):
    pool_id = ["old"]
    first = InstallationClaim(in_ledger(new_ledger()), lambda: pool_id[0], "gpu", ONE, "w")
    second = claim(new_ledger(), TWO, pool_id="new")
    assert tried(first, second) == [True, True]
    pool_id[0] = "new"
    assert not first.is_ours
    assert not anyio.run(first.acquire)


@dataclass
class FakeCluster:
    """A cluster with a lease in each namespace that is always free."""

    uid: str = "c1"
    held: dict = field(default_factory=dict)

    async def get(self, path):
        assert path == "/api/v1/namespaces/kube-system"
        return {"metadata": {"uid": self.uid}}


class FakeLease(KubernetesLease):
    """Held by the first that asks in its namespace."""

    async def try_once(self):
        self.holder = self._api.held.setdefault(self._namespace, self._holder)
        return self.is_held

    @property
    def is_held(self):
        return self._api.held.get(self._namespace) == self._holder

    async def hold(self, on_change):
        await anyio.sleep_forever()


def leadership_of(cluster, namespace, ledger, prefect, tasks):
    """The leadership of one worker in this namespace."""

    async def connect():
        return cluster

    async def opened():
        return ledger

    pool = LedPool(
        id=lambda: "id",
        name="gpu",
        lease="gpu-pool-gpu",
        ledger=opened,
        prefect=prefect.claim_pool,
    )
    return ClusterLeadership(connect, namespace, pool, lambda: tasks, lambda: None)


@pytest.mark.parametrize(
    ("uid", "want_place"),
    [
        pytest.param("c1", "namespace one of this cluster", id="two namespaces"),
        pytest.param(
            "c2",
            "namespace one of cluster c1 (the uid of its namespace kube-system)",
            id="two clusters",
        ),
    ],
)
def test_the_second_installation_says_who_acts_and_what_to_do(
    clock, new_ledger, monkeypatch, uid, want_place
):
    monkeypatch.setattr(module, "KubernetesLease", FakeLease)

    async def scenario():
        prefect = FakePrefect()
        async with anyio.create_task_group() as tasks:

            def leadership(cluster, namespace):
                return leadership_of(cluster, namespace, new_ledger(), prefect, tasks)

            here = FakeCluster()
            there = here if uid == here.uid else FakeCluster(uid)
            acting, standby = leadership(here, "one"), leadership(here, "one")
            second = leadership(there, "two")
            assert await acting.acquire()
            assert not await standby.acquire()
            assert not await second.acquire()
            assert (acting.is_held, standby.is_held, second.is_held) == (True, False, False)
            assert second.is_standby
            assert standby.why_not.endswith(
                "the lease gpu-pool-gpu and is active for this installation"
            )
            assert second.why_not.startswith(
                f"the installation in {want_place} acts for pool 'gpu' since 20"
            )
            assert second.why_not.endswith(
                "Uninstall one of the two, or give one a pool of its own. "
                "This one acts 3 minutes after the last worker of the other ends."
            )
            tasks.cancel_scope.cancel()

    anyio.run(scenario)


class FakePrefect:
    """Prefect's variables, as far as `pool_claims` uses them."""

    def __init__(self):
        self.values = {}

    async def claim_pool(self, wanted, instead_of):
        return await pool_claims.claim_pool(self, wanted, instead_of)

    async def read_variable_by_name(self, name):
        return SimpleNamespace(value=self.values[name]) if name in self.values else None

    async def create_variable(self, variable):
        if variable.name in self.values:
            raise ObjectAlreadyExists(Exception())
        self.values[variable.name] = variable.value

    async def update_variable(self, variable):
        assert variable.name in self.values
        self.values[variable.name] = variable.value


def in_prefect(prefect, installation, pool_id="id"):
    return InstallationClaim(prefect.claim_pool, lambda: pool_id, "gpu", installation, "w")


def test_of_two_installations_with_different_ledgers_one_acts(clock, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "KubernetesLease", FakeLease)
    ledgers = [Ledger.open(f"sqlite:///{tmp_path}/{number}.db") for number in range(2)]
    here, prefect = FakeCluster(), FakePrefect()

    async def scenario():
        async with anyio.create_task_group() as tasks:
            first, second = (
                leadership_of(here, namespace, ledger, prefect, tasks)
                for namespace, ledger in zip(("one", "two"), ledgers, strict=True)
            )
            assert await first.acquire()
            assert not await second.acquire()
            assert (first.is_held, second.is_held) == (True, False)
            assert second.is_standby
            assert second.why_not.startswith(
                "the installation in namespace one of this cluster acts for pool 'gpu' since 20"
            )
            assert (
                "with another ledger. Give all installations of a pool one ledger" in second.why_not
            )
            tasks.cancel_scope.cancel()

    anyio.run(scenario)
    for ledger in ledgers:
        ledger.close()


def test_a_claim_in_prefect_that_is_not_renewed_is_taken_and_read_again(clock):
    prefect = FakePrefect()
    first, second = in_prefect(prefect, ONE), in_prefect(prefect, TWO)
    assert tried(first, second) == [True, False]
    clock.advance(DURATION_S - 1)
    assert tried(second) == [False]
    assert prefect.values["prefect_gpu_pool_id"]["namespace"] == "one"
    clock.advance(1)
    assert tried(second) == [False], "it counts when it was read again"
    assert prefect.values["prefect_gpu_pool_id"]["namespace"] == "two"
    assert tried(second, first) == [True, False]


def test_of_two_that_take_a_claim_in_prefect_at_once_one_has_it(clock):
    prefect = FakePrefect()
    first, second, third = (
        in_prefect(prefect, Installation(cluster="c1", namespace=name)) for name in "abc"
    )
    tried(first, second, third)
    clock.advance(DURATION_S)
    assert tried(second, third) == [False, False]
    assert sorted(tried(second, third)) == [False, True]


def test_a_claim_in_prefect_is_renewed_by_its_installation_alone(clock):
    prefect = FakePrefect()
    first, second = in_prefect(prefect, ONE), in_prefect(prefect, TWO)
    for _ in range(3 * DURATION_S // 15):
        assert tried(first, second) == [True, False]
        clock.advance(15)


@pytest.mark.parametrize("damage", ["text", {"pool": "gpu"}, None])
def test_a_claim_in_prefect_that_a_person_has_changed_is_made_anew(clock, damage):
    prefect = FakePrefect()
    tried(in_prefect(prefect, ONE))
    prefect.values["prefect_gpu_pool_id"] = damage
    assert tried(in_prefect(prefect, TWO)) == [True]
