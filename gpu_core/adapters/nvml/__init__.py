"""The NVIDIA GPUs of this machine, as NVML reports them: which, who uses them, what they do."""

from gpu_core.adapters.nvml.discovery import DiscoveredGpu, discover_gpus, select_visible
from gpu_core.adapters.nvml.driver import GpuDiscoveryError
from gpu_core.adapters.nvml.sampler import GpuSampler
from gpu_core.adapters.nvml.users import GpuUsers

__all__ = [
    "DiscoveredGpu",
    "GpuDiscoveryError",
    "GpuSampler",
    "GpuUsers",
    "discover_gpus",
    "select_visible",
]
