"""Which tests are quick, which files hold them, and what is said of those that are left out."""

from pathlib import Path

import pytest

from tests.support.tiers import (
    Tier,
    left_out_lines,
    tier_of,
    tiers_below,
    tiers_of_file,
    tiers_of_files,
    why_misplaced,
)


@pytest.mark.parametrize(
    ("path", "needs", "want"),
    [
        pytest.param("gpu_core/test_a.py", ["tmp_path"], Tier.QUICK, id="nothing but this process"),
        pytest.param("blocks/test_a.py", ["prefect_server"], Tier.INTEGRATION, id="a server"),
        pytest.param("gpu_core/test_a.py", ["postgresql"], Tier.INTEGRATION, id="a marker"),
        pytest.param("layout/test_a.py", ["clean_export"], Tier.INTEGRATION, id="a clean clone"),
        pytest.param("end_to_end/test_a.py", [], Tier.INTEGRATION, id="a story"),
        pytest.param("cluster/test_a.py", [], Tier.CLUSTER, id="a folder of a cluster"),
        pytest.param("cluster/test_a.py", ["browser"], Tier.CLUSTER, id="the dearer of two"),
        pytest.param("infra/test_a.py", ["gpu"], Tier.GPU, id="the dearer by its need"),
        pytest.param("gpu_core/test_a.py", ["gpu"], Tier.GPU, id="a real GPU"),
        pytest.param("gpu/test_a.py", ["prefect_on_sqlite"], Tier.GPU, id="a folder of a GPU"),
        pytest.param("local_cluster/test_a.py", [], Tier.QUICK, id="a folder of a similar name"),
    ],
)
def test_the_tier_of_a_test(path, needs, want):
    assert tier_of(path, needs) == want


@pytest.mark.parametrize(
    ("path", "texts", "want"),
    [
        pytest.param("gpu_core/test_a.py", ["gpu = 1"], {Tier.QUICK}, id="no need"),
        pytest.param(
            "gpu_core/test_a.py", ["def test(postgresql):"], {Tier.QUICK, Tier.INTEGRATION},
            id="a fixture",
        ),
        pytest.param(
            "gpu_core/test_a.py", ["", 'getfixturevalue("postgresql")'],
            {Tier.QUICK, Tier.INTEGRATION}, id="a fixture of a conftest",
        ),
        pytest.param(
            "gpu_core/test_a.py", ["@pytest.mark.gpu"], {Tier.QUICK, Tier.GPU}, id="a mark",
        ),
        pytest.param("cluster/test_a.py", ["browser, postgresql"], {Tier.CLUSTER}, id="a folder"),
    ],
)  # fmt: skip
def test_the_tiers_that_the_tests_of_a_file_may_be_of(path, texts, want):
    assert tiers_of_file(path, texts) == want


def test_a_conftest_holds_for_its_folder_and_those_below(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("def postgresql(): ...")
    for folder in ("a/b", "c"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "test_it.py").touch()
    (tmp_path / "a" / "conftest.py").write_text("def ledger(postgresql): ...")

    assert tiers_of_files(tmp_path) == {
        "a/b/test_it.py": {Tier.QUICK, Tier.INTEGRATION},
        "c/test_it.py": {Tier.QUICK},
    }


def test_a_test_for_whose_tier_its_file_is_not_read_is_named() -> None:
    assert why_misplaced("a.py", Tier.QUICK, {Tier.QUICK, Tier.CLUSTER}) is None
    reason = why_misplaced("a.py", Tier.INTEGRATION, {Tier.QUICK})
    assert reason is not None
    assert reason.startswith("This test is of the tier integration, for which a.py is not read.")


def test_each_tier_that_is_left_out_is_named_with_its_command():
    assert left_out_lines({Tier.CLUSTER, Tier.INTEGRATION}) == [
        "tests with Prefect, PostgreSQL, Chromium, helm or a clean clone, and stories:"
        " make test-integration",
        "tests with a Kubernetes: make test-cluster",
    ]


def test_nothing_is_said_where_nothing_is_left_out():
    assert left_out_lines(set()) == []


def test_a_folder_has_the_tiers_of_all_files_below_it():
    files = {
        "cli/cost/test_a.py": frozenset({Tier.QUICK}),
        "cli/cost/test_b.py": frozenset({Tier.QUICK, Tier.INTEGRATION}),
        "cli/test_c.py": frozenset({Tier.GPU}),
        "cliff/test_d.py": frozenset({Tier.CLUSTER}),
    }
    found = tiers_below(files)
    assert found["cli/cost/test_a.py"] == {Tier.QUICK}
    assert found["cli/cost"] == {Tier.QUICK, Tier.INTEGRATION}
    assert found["cli"] == {Tier.QUICK, Tier.INTEGRATION, Tier.GPU}
    assert found["cliff"] == {Tier.CLUSTER}
    assert found["."] == set(Tier)
    assert "clif" not in found
