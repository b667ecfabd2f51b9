"""A password comes from a file or the environment, where no other user of the machine sees it."""

import io

import pytest

from gpu_core.cli.shared.secret_options import secret_option
from gpu_core.decisions.model.errors import InvalidInput

URL = "postgresql://gpu:secret@db/ledger"


def given(*arguments, name="ledger-url"):
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    return secret_option(name, options.get(f"--{name}"), options.get(f"--{name}-file"))


def test_a_file_has_it(tmp_path):
    (tmp_path / "url").write_text(f"{URL}\n")
    assert given("--ledger-url-file", str(tmp_path / "url")) == URL
    assert given("--mlflow-token-file", str(tmp_path / "url"), name="mlflow-token") == URL


def test_standard_input_has_it(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{URL}\n"))
    assert given("--ledger-url-file", "-") == URL


def test_the_environment_has_it_unless_an_option_says_otherwise(monkeypatch):
    assert given() is None
    monkeypatch.setenv("PREFECT_GPU_LEDGER_URL", URL)
    assert given() == URL
    assert given("--ledger-url", "sqlite:////ledger.db") == "sqlite:////ledger.db"


def test_who_gives_a_password_as_an_argument_learns_of_the_file(capsys):
    assert given("--ledger-url", URL) == URL
    warning = capsys.readouterr().err
    assert "Use --ledger-url-file or PREFECT_GPU_LEDGER_URL instead" in warning
    assert "secret" not in warning
    given("--ledger-url", "sqlite:////ledger.db")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("content", "want"),
    [
        (None, "cannot be read: No such file or directory"),
        (b" \n", "is empty"),
        (b"\xff\xfe", "cannot be read: the file is not valid UTF-8"),
    ],
)
def test_a_file_without_it_is_refused(content, want, tmp_path):
    path = tmp_path / "url"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidInput, match=f"^--ledger-url-file {want}"):
        given("--ledger-url-file", str(path))


def test_both_ways_at_once_are_refused(tmp_path):
    with pytest.raises(
        InvalidInput, match=r"^--ledger-url-file cannot be used with --ledger-url\. "
    ):
        given("--ledger-url", "sqlite:////a", "--ledger-url-file", str(tmp_path / "url"))
