"""What is said of an address that cannot be Prefect's API, or where nothing answers."""

import pytest

from gpu_core.decisions.checks.prefect.api_address import check_api_address, no_api, unreachable
from gpu_core.decisions.model.errors import InvalidInput


@pytest.mark.parametrize(
    ("address", "want_problem", "want_meant"),
    [
        pytest.param(None, "is not set", None, id="not set"),
        pytest.param("  ", "is not set", None, id="blank"),
        pytest.param("nonsense", "must start with http:// or https://", None, id="a word"),
        pytest.param(
            "localhost:4200", "must start with http", "http://localhost:4200/api", id="no scheme"
        ),
        pytest.param(
            "10.0.0.7:4200/api", "must start with http", "http://10.0.0.7:4200/api", id="an IP"
        ),
        pytest.param("htp://x:4200/api", "must start with http", None, id="a misspelled scheme"),
        pytest.param("http://", "does not contain a host", None, id="no host"),
        pytest.param("http:/x:4200/api", "does not contain a host", None, id="one slash"),
        pytest.param(
            "http://host:99999/api", "contains an invalid host or port", None, id="a large port"
        ),
        pytest.param("http://host:0/api", "contains an invalid port", None, id="port 0"),
        pytest.param(
            "http://host:42oo/api", "contains an invalid host or port", None, id="letters as a port"
        ),
        pytest.param(
            "http://[::1/api", "contains an invalid host or port", None, id="half a bracket"
        ),
        pytest.param("http://ho st/api", "must not contain spaces", None, id="a blank inside"),
    ],
)
def test_what_is_no_address(address: str | None, want_problem: str, want_meant: str | None) -> None:
    with pytest.raises(InvalidInput) as raised:
        check_api_address(address)
    error = raised.value
    assert error.field == "PREFECT_API_URL"
    assert want_problem in error.problem
    assert error.nearest == want_meant
    assert error.allowed is not None
    assert f"PREFECT_API_URL={want_meant or 'http://127.0.0.1:4200/api'}" in str(error.remedy)


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1:4200/api", "https://prefect.example/deep/api", "http://[::1]:4200/api/"],
)
def test_what_is_one(address: str) -> None:
    assert check_api_address(address) == address


@pytest.mark.parametrize(
    ("address", "why", "want"),
    [
        pytest.param(
            "https://x:4200/api",
            "[SSL: WRONG_VERSION_NUMBER] wrong version number",
            "Did you mean 'http://x:4200/api'?",
            id="TLS to a server without",
        ),
        pytest.param(
            "https://x/api", "[SSL: CERTIFICATE_VERIFY_FAILED]", "SSL_CERT_FILE", id="a certificate"
        ),
        pytest.param(
            "http://u:secret@x/api", "refused", "(got 'http://u:***@x/api')", id="refused"
        ),
    ],
)
def test_nothing_answers(address: str, why: str, want: str) -> None:
    assert want in str(unreachable(address, why))


def test_an_address_without_its_path_is_completed() -> None:
    assert no_api("http://x:4200/").nearest == "http://x:4200/api"
    assert no_api("http://x:4200/apj").nearest is None
