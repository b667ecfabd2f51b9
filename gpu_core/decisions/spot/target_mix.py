"""The choice of spot or on-demand for the next workload without a deadline, by the target share."""

from dataclasses import dataclass

from gpu_core.decisions.model.section import CapacityType


@dataclass(frozen=True, slots=True, kw_only=True)
class MixChoice:
    """The capacity that the next workload should use, and the mix after it."""

    capacity_type: CapacityType
    target_spot_share: float
    spot_share: float
    """Of all GPUs, with this workload's."""

    @property
    def reason(self) -> str:
        """The choice and its numbers as one sentence."""
        return (
            f"{self.capacity_type}: {self.spot_share:.0%} of the GPUs will be on spot, with "
            f"a target of {self.target_spot_share:.0%}"
        )


def choose_for_mix(
    spot_gpus: float, on_demand_gpus: float, workload_gpus: float, target_spot_share: float
) -> MixChoice:
    """The capacity that brings the mix nearer to its target. Of two that are as near: spot.

    Args:
        spot_gpus: What workloads without a deadline hold on spot.
        on_demand_gpus: The same on on-demand.
        workload_gpus: What the next one will hold; over 0.
        target_spot_share: 0 to 1.
    """
    total = spot_gpus + on_demand_gpus + workload_gpus
    with_it, without_it = (spot_gpus + workload_gpus) / total, spot_gpus / total
    is_spot = abs(with_it - target_spot_share) <= abs(without_it - target_spot_share)
    return MixChoice(
        capacity_type="spot" if is_spot else "on-demand",
        target_spot_share=target_spot_share,
        spot_share=with_it if is_spot else without_it,
    )
