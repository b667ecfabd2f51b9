"""Costs, comparisons, projections and the ladder of changes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.adapters.files.catalog_file import shipped_catalog
from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.optimization.experiments.comparison import compare_trials
from gpu_core.decisions.optimization.experiments.ladder import ChangeVerdict, ladder
from gpu_core.decisions.optimization.experiments.projection import (
    NoProjection,
    Projection,
    inference_job,
    project,
)
from gpu_core.decisions.optimization.experiments.trial import (
    Origin,
    Repeat,
    Setting,
    Trial,
    usd_per_1k,
)

CATALOG = shipped_catalog()
JOB = inference_job("llama-3-1b", 512, 128)
BASE = Setting(device="cpu", batch_size=1, precision=Precision.FP32)


def trial(
    batch_size: int, *speeds: float, p99_s: float = 0.1, quality: float | None = 0.9
) -> Trial:
    repeats = tuple(Repeat(inferences_per_s=s, p99_s=p99_s, quality=quality) for s in speeds)
    setting = replace(BASE, batch_size=batch_size)
    return Trial(setting=setting, micro_usd_per_hour=3_600_000, repeats=repeats)


def on(device: str, batch_size: int, precision: Precision) -> Projection | NoProjection:
    setting = Setting(device=device, batch_size=batch_size, precision=precision)
    return project(JOB, setting, CATALOG)


@given(st.integers(1, 10**9), st.floats(1e-3, 1e9), st.floats(1.01, 100))
def test_twice_the_speed_is_half_the_cost(price: int, speed: float, factor: float) -> None:
    once = usd_per_1k(price, speed)
    assert usd_per_1k(price, speed * factor) == pytest.approx(once / factor)
    assert usd_per_1k(2 * price, speed) == pytest.approx(2 * once)


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_no_measurement_is_refused(speed: float) -> None:
    with pytest.raises(InvalidInput, match="inferences_per_s"):
        Repeat(inferences_per_s=speed, p99_s=0.1)


def test_a_trial_without_repeats_is_refused() -> None:
    with pytest.raises(InvalidInput, match="repeats"):
        trial(1)


def test_a_comparison_names_the_winner_and_the_trade_off() -> None:
    slow = trial(1, 100, 101, 102, p99_s=0.01)
    found = compare_trials("batch-size", [slow, trial(8, 500, 501, 502, p99_s=0.05)])
    assert found.cheapest == ("cpu, fp32, batch 8",)
    assert found.fastest == ("cpu, fp32, batch 1",)
    assert len(found.front) == 2
    assert "Lowest cost: cpu, fp32, batch 8." in found.sentence


def test_within_noise_there_is_no_winner() -> None:
    found = compare_trials("batch-size", [trial(1, 90, 100, 110), trial(2, 91, 101, 111)])
    assert len(found.cheapest) == 2
    assert "No statistically significant difference in cost" in found.sentence


@pytest.mark.parametrize(
    ("trials", "want_text"),
    [
        pytest.param([], "missing", id="nothing was measured"),
        pytest.param([trial(1, 5), trial(1, 6)], "twice", id="one setting twice"),
    ],
)
def test_what_cannot_be_compared_is_refused(trials: list[Trial], want_text: str) -> None:
    with pytest.raises(InvalidInput, match=want_text):
        compare_trials("batch-size", trials)


def test_quality_keeps_a_dearer_configuration_on_the_front() -> None:
    exact = trial(1, 100, 101, 102, quality=0.98)
    rough = trial(2, 500, 501, 502, quality=0.90)
    assert len(compare_trials("precision", [exact, rough]).front) == 2
    without = [
        replace(t, repeats=tuple(replace(r, quality=None) for r in t.repeats))
        for t in (exact, rough)
    ]
    assert len(compare_trials("precision", without).front) == 1


def test_a_ladder_adds_up_its_savings() -> None:
    steps = ladder(
        [
            ("Batch 1", trial(1, 100, 101, 99)),
            ("Batch 8", trial(8, 200, 201, 199)),
            ("Batch 16", trial(16, 400, 401, 399)),
            ("Batch 32", trial(32, 398, 401, 399)),
        ]
    )
    assert [step.verdict for step in steps] == ["Baseline", "Saves", "Saves", "Undecided"]
    assert steps[1].saving == pytest.approx(0.5, abs=0.01)
    assert steps[2].cumulative_saving == pytest.approx(0.75, abs=0.01)
    assert steps[0].saving is None
    assert {step.origin for step in steps} == {Origin.MEASURED}


def test_a_step_that_costs_more_says_so() -> None:
    steps = ladder([("Batch 8", trial(8, 200, 201, 199)), ("Batch 1", trial(1, 100, 101, 99))])
    assert steps[1].verdict is ChangeVerdict.COSTS_MORE
    assert steps[1].saving == pytest.approx(-1.0, abs=0.05)


def test_projected_steps_are_marked_and_never_compared_with_measured_ones() -> None:
    steps = ladder(
        [
            ("Batch 1", trial(1, 100, 101)),
            ("T4", on("t4", 8, Precision.FP16)),
            ("T4 in bf16", on("t4", 8, Precision.BF16)),
        ]
    )
    assert [step.origin for step in steps] == ["measured", "projected", "projected"]
    assert [step.verdict for step in steps[1:]] == [ChangeVerdict.UNKNOWN, ChangeVerdict.UNKNOWN]
    assert steps[1].saving is None
    assert steps[1].cumulative_saving is None
    assert "does not support bf16" in steps[2].note
    assert steps[2].usd_per_1k is None


def test_a_projection_is_decided_only_beyond_the_bounds_of_the_estimate() -> None:
    steps = ladder(
        [
            ("T4", on("t4", 1, Precision.FP32)),
            ("Batch 8", on("t4", 8, Precision.FP32)),
            ("Another GPU type", on("a10g", 8, Precision.FP32)),
        ]
    )
    assert [step.verdict for step in steps[1:]] == [ChangeVerdict.SAVES, ChangeVerdict.UNDECIDED]


def test_a_projection_is_the_estimate_for_one_gpu_at_its_price() -> None:
    found = on("h100-80gb", 8, Precision.FP16)
    assert isinstance(found, Projection)
    assert "p5" in found.offering
    assert found.micro_usd_per_hour == 6_880_000
    assert found.limit == "memory bandwidth"
    assert found.latency_s.low < found.latency_s.likely < found.latency_s.high
    want_usd = 6.88 / 3600 * found.latency_s.likely / 8 * 1000
    assert found.usd_per_1k.likely == pytest.approx(want_usd)


@pytest.mark.parametrize(
    ("setting", "want_why"),
    [
        pytest.param(replace(BASE, device="t5"), "no on-demand price", id="an unknown GPU type"),
        pytest.param(replace(BASE, device="t4", processes=2), "shared GPU", id="a shared GPU"),
        pytest.param(
            replace(BASE, device="v100-16gb", precision=Precision.INT8),
            "does not support int8",
            id="no fast units",
        ),
        pytest.param(
            replace(BASE, device="t4", batch_size=10_000), "GiB", id="a batch that does not fit"
        ),
    ],
)
def test_what_cannot_be_projected_says_why(setting: Setting, want_why: str) -> None:
    found = project(JOB, setting, CATALOG)
    assert isinstance(found, NoProjection)
    assert want_why in found.why


def test_an_unknown_model_is_named_with_the_nearest() -> None:
    with pytest.raises(InvalidInput, match="llama-3-1b"):
        inference_job("lama-3-1b", 512, 128)
