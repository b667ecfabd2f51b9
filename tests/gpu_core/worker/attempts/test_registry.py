"""Attempts whose record may or may not have reached the ledger."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from uuid import uuid4

import anyio
import pytest
import sqlalchemy as sa
from prefect.client.schemas.objects import FlowRun

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import held_gpus
from gpu_core.decisions.model.cluster import ZONE_LABEL, NodeShare, Placement
from gpu_core.decisions.model.prices import PriceChange, Rates
from gpu_core.decisions.model.workload import Shape
from gpu_core.decisions.placement.cluster_info import ClusterInfo
from gpu_core.decisions.policy.policy import Policy, parse_policy
from gpu_core.decisions.requests.runs.run_workload import RunLimits
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.testing.builders.attempts import admit, at, make_attempt, make_run
from gpu_core.testing.builders.workloads import make_node
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.attempts.run_log import describe_placement, run_fields, start_note
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import Binding
from tests.support.demands import make_demand

NOW = datetime.now(UTC)
IN_ZONE_A = {ZONE_LABEL: "zone-a"}


def test_an_attempt_stays_known_when_the_ledger_fails_while_it_is_written_down(tmp_path):
    """Ambiguous whether the record arrived, so it has to be withdrawn, not forgotten."""
    run = FlowRun(id=uuid4(), flow_id=uuid4())
    placement = Placement(
        gpu_type="a10g", capacity_type="on-demand", shares=(NodeShare(node="n", gpu_ids=("0",)),)
    )
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        engine = sa.create_engine(f"sqlite:///{tmp_path / 'ledger.db'}")
        with engine.begin() as connection:
            connection.execute(
                sa.text(
                    "CREATE TRIGGER broken BEFORE INSERT ON runs "
                    "BEGIN SELECT RAISE(ABORT, 'disk full'); END"
                )
            )
        engine.dispose()
        attempts = AttemptRegistry("gpus", "host-1", tmp_path, ledger)

        async def opening():
            key = str(run.id)
            await attempts.open(
                {key: placement}, {key: make_demand(run)}, {}, Policy(version=1), NOW
            )

        with pytest.raises(sa.exc.IntegrityError):
            anyio.run(opening)

    assert attempts.of_run(str(run.id)) is not None


def test_an_attempt_whose_node_comes_holds_and_costs_from_then_on(tmp_path):
    """While it waits it costs nothing; a new worker finds it where it is."""
    run = FlowRun(id=uuid4(), flow_id=uuid4())
    key, came_at = str(run.id), NOW + timedelta(minutes=7)

    def on(node):
        share = NodeShare(node=node, gpu_ids=("3",))
        return Placement(gpu_type="t4", capacity_type="spot", shares=(share,))

    policy = parse_policy({"version": 1, "prices": {"t4": {"spot": 0.1}}})
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        attempts = AttemptRegistry("gpus", "host-1", tmp_path, ledger)

        async def waiting_then_there():
            await attempts.open({key: on("new/big/0")}, {key: make_demand(run)}, {}, policy, NOW)
            running = attempts.of_run(key)
            waits = running.awaited_kinds, running.attempt.price_micro_usd_per_gpu_hour
            node = make_node("n1", gpu_type="t4", capacity_type="spot", labels=IN_ZONE_A)
            binding = Binding(placement=on("n1"), since=came_at, node=node)
            await attempts.bind(running, binding, policy)
            return waits, running

        waits, running = anyio.run(waiting_then_there)
        (found,) = ledger.open_attempts("gpus", "host-1")
    assert waits == (("big",), 0)
    assert running.awaited_kinds == ()
    assert found == running.attempt
    assert (found.node, found.gpu_ids, found.zone) == ("n1", ("3",), "zone-a")
    assert found.price_micro_usd_per_gpu_hour == 100_000
    assert found.admitted_at == came_at
    assert running.allocation().placement == on("n1")


A_PRICE = parse_policy({"version": 1, "prices": {"t4": {"spot": 0.1}}})
ON_N1 = Placement(
    gpu_type="t4", capacity_type="spot", shares=(NodeShare(node="n1", gpu_ids=("3",)),)
)
N1 = make_node("n1", gpu_type="t4", capacity_type="spot", labels=IN_ZONE_A)


def test_what_another_scheduler_places_costs_nothing_and_is_nowhere_until_it_is_bound(tmp_path):
    """Also where it is bound to the node of the plan; a new worker distinguishes both."""
    run = FlowRun(id=uuid4(), flow_id=uuid4())
    key, bound_at = str(run.id), NOW + timedelta(minutes=7)
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        attempts = AttemptRegistry("gpus", "host-1", tmp_path, ledger)

        async def waiting_then_there():
            zones = {"n1": "zone-a"}
            await attempts.open(
                *({key: ON_N1}, {key: make_demand(run)}, zones, A_PRICE, NOW),
                is_placed_as_planned=False,
            )
            running = attempts.of_run(key)
            await attempts.reprice(A_PRICE, NOW)
            (before,) = ledger.open_attempts("gpus", "host-1")
            assert before == running.attempt
            shown = describe_placement(running, "started"), start_note(running), run_fields(running)
            binding = Binding(placement=ON_N1, since=bound_at, node=N1)
            await attempts.bind(running, binding, A_PRICE)
            return before, shown

        before, (described, note, fields) = anyio.run(waiting_then_there)
        (found,) = ledger.open_attempts("gpus", "host-1")
    assert (before.bound_at, before.zone) == (None, None)
    assert before.price_micro_usd_per_gpu_hour == 0
    assert (found.bound_at, found.zone) == (bound_at, "zone-a")
    assert found.price_micro_usd_per_gpu_hour == 100_000
    assert found.admitted_at == bound_at
    assert described == "is waiting to be placed by another scheduler (planned with 1 × t4)"
    assert "n1" not in described + note
    assert "costs" not in note
    assert "node" not in fields


def test_an_attempt_of_a_version_before_keeps_its_price_when_its_pods_are_seen_in_place(tmp_path):
    """Its row says neither that its node is planned nor that it is certain."""
    change = PriceChange(since=at(1), rates=Rates(gpu_micro_usd_per_hour=3_000_000, source="x"))
    old = make_attempt(
        str(uuid4()),
        node="n1",
        gpu_type="t4",
        capacity_type="spot",
        shares=ON_N1.shares,
        price_source="policy",
        later_prices=(change,),
        bound_at=None,
    )
    running = AttemptState(
        attempt=old,
        record=make_run(old.flow_run_id),
        run_dir=tmp_path,
        workload=make_demand(FlowRun(id=uuid4(), flow_id=uuid4())).workload,
        request=GpuRequest(),
        limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
    )
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        admit(ledger, old)
        attempts = AttemptRegistry("gpus", "host-1", tmp_path, ledger)
        binding = Binding(placement=ON_N1, since=at(-1), node=N1)
        anyio.run(attempts.bind, running, binding, A_PRICE)
        (found,) = ledger.open_attempts("gpus", "host-1")
    assert found == replace(old, bound_at=at(-1))


@pytest.mark.parametrize(
    ("shape", "shares_per_gpu", "want_gpus"),
    [
        pytest.param(Shape(), None, "1", id="a whole GPU"),
        pytest.param(Shape(gpu_share_milli=250), None, "1/4", id="a quarter of a shared one"),
        pytest.param(Shape(gpu_share_milli=100), 4, "1/4", id="of replicas a whole one"),
        pytest.param(Shape(gpu_share_milli=100), 3, "1/3", id="of three, not 333 thousandths"),
        pytest.param(Shape(mig_profile="1g.10gb"), None, "1/7", id="an instance"),
        pytest.param(Shape(mig_profile="3g.40gb"), None, "3/7", id="a larger instance"),
        # Of another GPU it would be a quarter of the memory.
        pytest.param(
            Shape(mig_profile="1g.10gb", gpu_share_milli=250),
            None,
            "1/7",
            id="an instance of any GPU",
        ),
    ],
)
def test_a_part_of_a_gpu_costs_that_part(tmp_path, shape, shares_per_gpu, want_gpus):
    run = FlowRun(id=uuid4(), flow_id=uuid4())
    division = {"is_mig": True} if shape.mig_profile else {"is_shareable": True}
    division |= {"shares_per_gpu": shares_per_gpu}
    placement = ClusterInfo([make_node(gpu_type="a100-80gb", **division)]).find(shape)
    policy = parse_policy({"version": 1, "prices": {"a100-80gb": {"on-demand": 0.8}}})
    key = str(run.id)
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        attempts = AttemptRegistry("gpus", "host-1", tmp_path, ledger)
        anyio.run(attempts.open, {key: placement}, {key: make_demand(run)}, {}, policy, NOW)
        (found,) = ledger.open_attempts("gpus", "host-1")
    assert (found.price_micro_usd_per_gpu_hour, found.price_source) == (800_000, "policy")
    assert found.gpus == found.priced_gpus == held_gpus(found.shares) == Fraction(want_gpus)
    assert found.shares == placement.shares
