"""Which errors of a checkpoint store come again in each attempt."""

import errno

import pytest

from gpu_core.decisions.checkpoints.store_errors import permanent_remedy


@pytest.mark.parametrize(
    ("code", "want"),
    [
        pytest.param("NoSuchBucket", "create the bucket", id="no bucket"),
        pytest.param("AccessDenied", "grant these credentials", id="no right"),
        pytest.param("InvalidAccessKeyId", "correct AWS_ACCESS_KEY_ID", id="unknown key"),
        pytest.param("SignatureDoesNotMatch", "correct AWS_ACCESS_KEY_ID", id="wrong secret"),
        pytest.param("PermanentRedirect", "set AWS_DEFAULT_REGION", id="another region"),
        pytest.param("AuthorizationHeaderMalformed", "set AWS_DEFAULT_REGION", id="signed for it"),
        pytest.param("ExpiredToken", None, id="a token that is renewed"),
        pytest.param("RequestTimeTooSkewed", None, id="a node's clock"),
        pytest.param("SlowDown", None, id="too many requests"),
        pytest.param("InternalError", None, id="the store's own error"),
        pytest.param("503", None, id="no code of S3"),
        pytest.param("403", None, id="a proxy's refusal"),
        pytest.param("", None, id="empty"),
    ],
)
def test_an_answer_of_s3(code, want):
    found = permanent_remedy(("ClientError", "Exception"), code=code)
    assert (found is None) == (want is None)
    assert (found or "").startswith(want or "")


@pytest.mark.parametrize(
    ("number", "want"),
    [
        pytest.param(errno.EACCES, "ensure that the directory is writable", id="not ours"),
        pytest.param(errno.ENOTDIR, "set `checkpoint_uri` to a directory", id="a file"),
        pytest.param(errno.ENAMETOOLONG, "shorten", id="too long"),
        pytest.param(errno.EROFS, None, id="a disk that the node mounted read-only"),
        pytest.param(errno.ENOSPC, None, id="a full disk"),
        pytest.param(errno.ENOENT, None, id="a mount that is not there yet"),
    ],
)
def test_an_answer_of_the_operating_system(number, want):
    found = permanent_remedy(("OSError",), errno_=number)
    assert (found is None) == (want is None)
    assert (found or "").startswith(want or "")


@pytest.mark.parametrize(
    ("name", "text", "want"),
    [
        pytest.param("NoCredentialsError", "", "set AWS_ACCESS_KEY_ID", id="no credentials"),
        pytest.param("ModuleNotFoundError", "", "install the module", id="no boto3"),
        pytest.param("ValueError", "Invalid endpoint: x", "correct AWS_ENDPOINT", id="endpoint"),
        pytest.param("ValueError", "a bug", None, id="an unknown error"),
        pytest.param("EndpointConnectionError", "", None, id="no answer"),
        pytest.param("CredentialRetrievalError", "", None, id="a service that gives credentials"),
        pytest.param("ReadTimeoutError", "", None, id="a slow answer"),
    ],
)
def test_an_error_before_or_without_an_answer(name, text, want):
    found = permanent_remedy((name, "Exception"), text)
    assert (found is None) == (want is None)
    assert (found or "").startswith(want or "")
