"""What each ordering key compares."""

from gpu_core.decisions.policy.ordering import OrderKey
from gpu_core.decisions.scheduling.queue.order_keys import MEASURES


def test_every_ordering_key_has_a_measure() -> None:
    # The fair share changes while a workload waits: `WorkloadOrder.with_share` adds it.
    assert set(MEASURES) == set(OrderKey) - {OrderKey.FAIR_SHARE}
