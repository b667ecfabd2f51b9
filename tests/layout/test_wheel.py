"""The wheel: the library with all its files, our blocks and flows in it, and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = ("gpu_core/blocks/", "gpu_core/flows/")


@pytest.fixture(scope="module")
def wheel(clean_export, tmp_path_factory):
    """A wheel that was built from the tracked files."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, "."],
        cwd=clean_export,
        check=True,
        timeout=600,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def packaged(wheel):
    """The names of the files in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if not name.endswith("/")]


def test_it_installs_the_library_and_no_other_top_level_name(packaged):
    tops = {name.split("/", 1)[0] for name in packaged}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"gpu_core"}


def test_it_has_every_tracked_file_of_the_library(packaged, tracked_files):
    """Templates, migrations and the typing marker too, not only modules."""
    ours = {path for path in tracked_files if path.startswith("gpu_core/")}
    assert {name for name in packaged if not name.startswith((*PLACES, "prefect_gpu-"))} == {
        path for path in ours if not path.startswith(PLACES)
    }
    assert "gpu_core/py.typed" in packaged


def test_it_has_the_blocks_and_flows_of_the_top_folders_in_the_library(packaged, tracked_files):
    """In a project of one's own there are no folders of ours; the examples stay behind."""
    ours = {f"gpu_core/{path}" for path in tracked_files if path.startswith(("blocks/", "flows/"))}
    examples = {"gpu_core/flows/classify_digits.py", "gpu_core/flows/train_digits.py"}
    assert {name for name in packaged if name.startswith(PLACES)} == ours - examples


def test_their_init_files_are_those_of_the_top_folders(wheel):
    """Those of a checkout lead to the top folders, which an installed wheel does not have."""
    for name in ("blocks", "flows"):
        with zipfile.ZipFile(wheel) as archive:
            packaged = archive.read(f"gpu_core/{name}/__init__.py").decode()
        assert packaged == (ROOT / name / "__init__.py").read_text()


def test_it_carries_the_license(packaged):
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in packaged)
