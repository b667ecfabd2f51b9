"""No text that people read shows a password, wherever in an address it stands."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.redaction import HIDDEN, basic_credentials, redact, secrets_in


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (
            "cannot reach http://ada:pw@mlflow:5000/api",
            "cannot reach http://ada:***@mlflow:5000/api",
        ),
        ("postgresql+psycopg://gpu:p/w@x@db:5432/l", "postgresql+psycopg://gpu:***@db:5432/l"),
        ("postgresql://gpu:12345@db/l", "postgresql://gpu:***@db/l"),
        ("s3://KEY:SECRET@bucket/prefix", "s3://KEY:***@bucket/prefix"),
        ("https://ghp_token@host/repo.git", "https://***@host/repo.git"),
        ("postgresql://gpu@db/ledger", "postgresql://gpu@db/ledger"),
        ("postgresql://db/l?user=gpu&password=pw", "postgresql://db/l?user=gpu&password=***"),
        ("host=db password='p w' user=gpu", "host=db password=*** user=gpu"),
        ("https://b.s3/x?X-Amz-Signature=abc&v=1", "https://b.s3/x?X-Amz-Signature=***&v=1"),
        ("Authorization: Bearer abcdefgh.ijk", "Authorization: Bearer ***"),
        ("{'Authorization': 'Basic dXNlcjpwdw=='}", "{'Authorization': 'Basic ***'}"),
    ],
)
def test_secrets_in_addresses_and_headers_are_hidden(text, want):
    assert redact(text) == want
    assert redact(want) == want


@pytest.mark.parametrize(
    "text",
    [
        "http://mlflow:5000/api and mail to ada@example.org",
        "http://mlflow:5000/users/ada@example.org",
        "s3://bucket/prefix@2",
        "sqlite:////var/lib/gpu/ledger@1.db",
        "the token is missing; give a basic price",
        "Attempt 2 of train@gpu starts at 12:30",
    ],
)
def test_all_else_stays_as_it_is(text):
    assert redact(text) == text


@given(st.text(min_size=6, max_size=30), st.text(max_size=20), st.text(max_size=20))
def test_a_known_secret_is_hidden_wherever_it_stands(secret, before, after):
    hidden = redact(f"{before}{secret}{after}", [secret])
    assert secret not in hidden or secret in before + HIDDEN + after


def test_a_known_secret_is_hidden_as_it_is_written_in_addresses():
    assert redact("a%2Fb%40cdef", ["a/b@cdef"]) == HIDDEN
    assert redact("gpu-process", ["gpu"]) == "gpu-process"


@pytest.mark.parametrize(
    ("address", "want"),
    [
        ("postgresql://gpu:p%40ss@db/l", ("p%40ss", "p@ss")),
        ("postgresql://db/l?password=pw", ("pw",)),
        ("sqlite:////ledger.db", ()),
        ("http://mlflow:5000", ()),
    ],
)
def test_the_secrets_of_an_address_are_known(address, want):
    assert secrets_in(address) == want


def test_the_header_of_rfc_7617():
    assert basic_credentials("Aladdin", "open sesame") == "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="


@pytest.mark.parametrize(
    "part",
    ["a", "a.", "a-", "a://", "a://b:", "https://", "token", "=", "@", "http://10.0.0.1:2380,"],
)
def test_long_texts_take_no_longer_than_their_length_asks_for(part):
    text = part * (200_000 // len(part))
    began_s = time.process_time()
    redact(text)
    assert time.process_time() - began_s < 5.0  # milliseconds; minutes if it were quadratic


@pytest.mark.parametrize("length", [499, 501, 5_000])
def test_a_password_of_any_length_is_hidden(length):
    password = "p" * length
    address = f"postgresql://u:{password}@h/db"
    assert redact(address) == "postgresql://u:***@h/db"
    assert secrets_in(address) == (password,)
