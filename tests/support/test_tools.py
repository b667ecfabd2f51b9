"""A missing tool skips a test with one line, or fails it where everything is required."""

import pytest

from tests.support.tools import REQUIRE_ALL_VARIABLE, require


def test_a_tool_that_is_here_is_handed_back():
    assert require("/usr/bin/cc", "a C compiler") == "/usr/bin/cc"


def test_a_missing_tool_skips(monkeypatch):
    monkeypatch.delenv(REQUIRE_ALL_VARIABLE, raising=False)
    with pytest.raises(pytest.skip.Exception, match="a C compiler is missing"):
        require(None, "a C compiler")


def test_a_missing_tool_fails_where_all_are_required(monkeypatch):
    monkeypatch.setenv(REQUIRE_ALL_VARIABLE, "1")
    with pytest.raises(pytest.fail.Exception, match="a C compiler is missing"):
        require(None, "a C compiler")
