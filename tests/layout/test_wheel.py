"""The wheel: the library with all its files, and nothing else."""

import subprocess
import sys
import zipfile

import pytest


@pytest.fixture(scope="module")
def packaged(clean_export, tmp_path_factory):
    """The names of the files in a wheel that was built from the tracked files."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, "."],
        cwd=clean_export,
        check=True,
        timeout=120,
    )
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if not name.endswith("/")]


def test_it_installs_the_library_and_no_other_top_level_name(packaged):
    tops = {name.split("/", 1)[0] for name in packaged}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"gpu_core"}


def test_it_has_every_tracked_file_of_the_library(packaged, tracked_files):
    """Templates, migrations and the typing marker too, not only modules."""
    ours = {path for path in tracked_files if path.startswith("gpu_core/")}
    assert {name for name in packaged if name.startswith("gpu_core/")} == ours
    assert "gpu_core/py.typed" in packaged


def test_it_carries_the_licence(packaged):
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in packaged)
