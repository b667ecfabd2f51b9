"""Whom Prefect keeps back, by the rules of its server, and what people read of a pool."""

from dataclasses import replace

import pytest

from gpu_core.decisions.checks.prefect.concurrency_limits import kept_back
from gpu_core.decisions.checks.prefect.pool_status import (
    PoolStatus,
    QueueStatus,
    SeenWorker,
    notices,
)

OURS = SeenWorker(name="w", worker_type="gpu-process")
POOL = PoolStatus(
    name="gpu",
    worker_type="gpu-process",
    queues=(QueueStatus(name="high"), QueueStatus(name="low")),
    workers=(OURS,),
)
DUE = [("a", "low"), ("b", "high"), ("c", "low")]


def with_low(**changed: object) -> PoolStatus:
    return replace(POOL, queues=(POOL.queues[0], QueueStatus(name="low", **changed)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pool", "want"),
    [
        pytest.param(POOL, {}, id="nothing"),
        pytest.param(
            replace(POOL, is_paused=True),
            dict.fromkeys("abc", "PoolPaused"),
            id="all of a paused pool",
        ),
        pytest.param(
            with_low(is_paused=True), dict.fromkeys("ac", "QueuePaused"), id="a paused queue"
        ),
        pytest.param(
            with_low(concurrency_limit=2, active=1),
            {"c": "QueueLimit"},
            id="the later one of a queue with one slot left",
        ),
        pytest.param(
            with_low(concurrency_limit=1, active=3),
            dict.fromkeys("ac", "QueueLimit"),
            id="all of a queue over its limit",
        ),
        pytest.param(
            replace(with_low(active=1), concurrency_limit=2),
            dict.fromkeys("ac", "PoolLimit"),
            id="a full pool: the more urgent queue gets the last slot",
        ),
        pytest.param(
            replace(with_low(is_paused=True, active=5), concurrency_limit=1),
            dict.fromkeys("ac", "QueuePaused"),
            id="what runs of a paused queue takes no slot of the pool",
        ),
    ],
)
def test_who_is_kept_back_and_why(pool: PoolStatus, want: dict[str, str]) -> None:
    assert {run: str(hold.reason) for run, hold in kept_back(pool, DUE).items()} == want


def test_a_queue_that_is_not_known_yet_is_kept_back_by_its_pool_only() -> None:
    assert kept_back(with_low(is_paused=True), [("new", "other")]) == {}
    assert kept_back(replace(POOL, is_paused=True), [("new", "other")])


@pytest.mark.parametrize(
    ("pool", "wants"),
    [
        pytest.param(POOL, [], id="nothing"),
        pytest.param(
            replace(POOL, is_paused=True),
            ["Work pool 'gpu' is paused", "prefect work-pool resume gpu"],
            id="a paused pool",
        ),
        pytest.param(
            with_low(is_paused=True),
            ["Work queue 'low' is paused", "prefect work-queue resume low --pool gpu"],
            id="a paused queue",
        ),
        pytest.param(
            replace(with_low(active=2), concurrency_limit=2),
            ["limit of 2, with 2 active runs", "prefect work-pool clear-concurrency-limit gpu"],
            id="a full pool",
        ),
        pytest.param(
            with_low(concurrency_limit=1, active=1),
            ["prefect work-queue clear-concurrency-limit low --pool gpu"],
            id="a full queue",
        ),
        pytest.param(with_low(concurrency_limit=2, active=1), [], id="a limit with room"),
        pytest.param(
            replace(POOL, workers=()),
            [
                "No gpu-process worker is online for this work pool",
                "prefect worker start --pool gpu --type gpu-process",
            ],
            id="no worker",
        ),
        pytest.param(
            replace(POOL, workers=(SeenWorker(name="x", worker_type=None),)),
            [],
            id="a worker of which nothing is known",
        ),
        pytest.param(
            replace(POOL, workers=(OURS, SeenWorker(name="p", worker_type="process"))),
            [
                "Worker 'p' of type 'process' starts runs in this pool without allocating GPUs",
                "prefect worker start --pool gpu --type gpu-process",
                "prefect work-pool create process-pool --type process",
            ],
            id="a worker of another type",
        ),
    ],
)
def test_what_people_read_of_a_pool(pool: PoolStatus, wants: list[str]) -> None:
    found = notices(pool)
    assert len(found) == bool(wants)
    for want in wants:
        assert want in found[0].text


def test_names_with_spaces_can_be_copied_into_a_shell() -> None:
    pool = replace(POOL, name="my pool", queues=(QueueStatus(name="a b", is_paused=True),))
    assert notices(pool)[0].text.endswith("prefect work-queue resume 'a b' --pool 'my pool'")


def test_a_worker_of_another_type_is_none_of_the_pools_own() -> None:
    pool = replace(POOL, workers=(SeenWorker(name="p", worker_type="process"),))
    assert [notice.key for notice in notices(pool)] == ["worker p", "no worker"]
