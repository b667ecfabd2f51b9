"""Which GPU type a product is."""

import pytest

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES
from gpu_core.decisions.catalog.product_names import (
    gpu_type_from_product_name,
    gpu_types_meant,
    nearest_gpu_types,
    nominal_memory_gib,
)

MIB = 1024**2


@pytest.mark.parametrize(
    ("product", "memory_mib", "want_type"),
    [
        pytest.param("Tesla T4", 15_360, "t4", id="a T4 reports 15 GiB"),
        pytest.param("Tesla V100-SXM2-16GB", 16_160, "v100-16gb", id="the smaller V100"),
        pytest.param("Tesla V100-SXM2-32GB", None, "v100-32gb", id="the size in the name"),
        pytest.param("NVIDIA A10G", 22_888, "a10g", id="an A10G reports 22,888 MiB"),
        pytest.param("NVIDIA L4", 23_034, "l4", id="an L4 is no L40S"),
        pytest.param("NVIDIA L40S", 46_068, "l40s", id="an L40S is no L4"),
        pytest.param("NVIDIA A100-SXM4-40GB", 40_960, "a100-40gb", id="the smaller A100"),
        pytest.param("NVIDIA A100-SXM4-80GB", 81_920, "a100-80gb", id="the larger A100"),
        pytest.param("NVIDIA A100 80GB PCIe", None, "a100-80gb", id="words in another order"),
        pytest.param("NVIDIA H100 80GB HBM3", 81_559, "h100-80gb", id="an H100 with 80 GB"),
        pytest.param("NVIDIA H100 PCIe", 81_559, "h100-80gb", id="size from the driver"),
        pytest.param("NVIDIA H100 NVL", 95_830, "h100-nvl", id="an H100 with 94 GB is another"),
        pytest.param("NVIDIA H200", 143_771, "h200", id="an H200"),
        pytest.param("NVIDIA B200", 183_359, "b200", id="a B200"),
        pytest.param("NVIDIA L4", None, "l4", id="one size only, so memory need not be known"),
        pytest.param("NVIDIA H100 PCIe", None, "h100-pcie", id="several sizes are never guessed"),
        pytest.param(
            "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4_864, "a100-sxm4-40gb-mig-1g-5gb", id="a slice"
        ),
        pytest.param("NVIDIA H200", 18_000, "h200-18gib", id="a slice that hides its nature"),
        pytest.param(
            "NVIDIA GeForce RTX 4090", 24_564, "geforce-rtx-4090", id="a product that is not listed"
        ),
        pytest.param("", None, "unknown", id="a driver that says nothing"),
    ],
)
def test_product_name(product, memory_mib, want_type):
    """A product is recognized by chip and memory, or keeps its own name."""
    memory_bytes = None if memory_mib is None else memory_mib * MIB
    assert gpu_type_from_product_name(product, memory_bytes) == want_type


def test_nominal_memory_is_known_for_types_of_the_catalog_only():
    """A type outside the catalog has unknown memory, not zero."""
    assert nominal_memory_gib("a100-80gb") == 80
    assert nominal_memory_gib("geforce-rtx-4090") is None


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("a100", ("a100-40gb", "a100-80gb"), id="both sizes, and no A10G"),
        pytest.param("A100_80GB", ("a100-80gb",), id="another spelling"),
        pytest.param("NVIDIA A100-SXM4-40GB", ("a100-40gb",), id="the driver's name"),
        pytest.param("nvidia-tesla-v100-32", ("v100-32gb",), id="a maker in front"),
        pytest.param("h100-90gb", ("h100-80gb",), id="a size that there is not"),
        pytest.param("a10", (), id="an A10 is no A10G"),
        pytest.param("l40", (), id="an L40 is no L40S"),
        pytest.param("h20", (), id="an H20 is no H200"),
        pytest.param("gh200", (), id="a GH200 is no H200"),
        pytest.param("b100", (), id="a B100 is no A100"),
        pytest.param("t40", (), id="a T40 is no T4"),
        pytest.param("gpu", (), id="no model at all"),
        pytest.param("1" * 10_000, (), id="10,000 digits"),
    ],
)
def test_a_misspelled_type_is_never_another_product(name: str, want: tuple[str, ...]) -> None:
    assert gpu_types_meant(name, GPU_TYPES) == want


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("h100", ("h100-80gb",), id="a model"),
        pytest.param("h1000", ("h100-80gb",), id="a digit too many"),
        pytest.param("l4s", ("l40s",), id="a digit that is missing"),
        pytest.param("a100-40", ("a100-40gb",), id="the model before the spelling"),
        pytest.param("gpu", (), id="nothing like it"),
    ],
)
def test_an_error_suggests_the_model_else_the_nearest_spelling(name, want):
    assert nearest_gpu_types(name, GPU_TYPES) == want


def test_products_with_the_same_number_are_different_products() -> None:
    known = ["quadro-rtx-6000", "rtx-6000-ada", "geforce-rtx-4090"]
    assert gpu_types_meant("rtx-4090", known) == ("geforce-rtx-4090",)
    assert gpu_types_meant("quadro-6000", known) == ("quadro-rtx-6000",)
