import pytest

from tests.support.nvml_driver import build_driver


@pytest.fixture(scope="session")
def mock_driver(tmp_path_factory):
    """The folder of the mock driver's library."""
    return build_driver(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def old_driver(tmp_path_factory):
    """The same as a driver before 450 has it: without GPM, remapped rows and some names."""
    return build_driver(tmp_path_factory.mktemp("old-nvml"), "-DOLD_DRIVER")
