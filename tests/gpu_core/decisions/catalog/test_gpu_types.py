"""What each GPU type can do."""

import pytest

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES, Precision


@pytest.mark.parametrize(
    ("gpu_type", "want_bf16", "want_mib", "want_nvlink"),
    [
        pytest.param("t4", None, 16384, False, id="a T4 has no bf16"),
        pytest.param("v100-16gb", None, 16384, True, id="nor has a V100"),
        pytest.param("a10g", 70, 22888, False, id="an A10G is no A10"),
        pytest.param("l4", 121, 22888, False, id="an L4"),
        pytest.param("l40s", 362, 45776, False, id="an L40S"),
        pytest.param("a100-80gb", 312, 81920, True, id="an A100, dense: half of the sparse figure"),
        pytest.param("h100-80gb", 989, 81920, True, id="an H100"),
        pytest.param("h200", 989, 144384, True, id="an H200 computes as an H100 does"),
        pytest.param("b200", 2250, 183359, True, id="a B200"),
    ],
)
def test_known_figures(gpu_type, want_bf16, want_mib, want_nvlink):
    known = GPU_TYPES[gpu_type]
    assert known.tflops(Precision.BF16) == want_bf16
    assert known.tflops(Precision.INT4) == known.tflops(Precision.FP16)
    assert known.reported_memory_mib == want_mib
    assert (known.nvlink_gb_per_s is not None) is want_nvlink


@pytest.mark.parametrize("known", GPU_TYPES.values(), ids=lambda known: known.name)
def test_figures_are_plausible(known):
    """A slip of a digit in a new row is noticed: chips of ten years lie within these bounds."""
    tflops = known.dense_tflops
    assert known.source
    assert 0.85 < known.reported_memory_mib / 1024 / known.memory_gib <= 1.0
    assert 200 <= known.bandwidth_gb_per_s <= 10_000
    assert 50 <= known.power_w <= 1_500
    assert tflops[Precision.FP32] < tflops[Precision.FP16] < 2_500
    assert tflops.get(Precision.BF16, tflops[Precision.FP16]) == tflops[Precision.FP16]
    # Work for one byte that is read: from V100s to B200s about the same.
    assert 50 < tflops[Precision.FP16] * 1e3 / known.bandwidth_gb_per_s < 500


def test_parts_come_from_the_one_table_of_mig_profiles():
    assert GPU_TYPES["h200"].mig_profiles[0] == "1g.18gb"
    assert GPU_TYPES["l4"].mig_profiles == ()
