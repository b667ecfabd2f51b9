"""The errors of a checkpoint store that each further attempt would meet again, with their remedies.

What may be the fault of one node, of the network or of the store itself is not among them: a disk
that is full or mounted read-only, a time-out, an answer of the class 5xx, an expired token.
"""

import errno
from collections.abc import Iterable, Mapping

_SET_KEYS = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the run's environment, or assign an "
    "IAM role to its machine or pod"
)
_CORRECT_KEYS = "correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the run's environment"
_CORRECT_REGION = "set AWS_DEFAULT_REGION to the bucket's region in the run's environment"
_CORRECT_NAME = "correct the bucket's name in checkpoint_uri"
_ANOTHER_FOLDER = "set `checkpoint_uri` to a directory that can be created and written to"

# Error codes of S3's REST API ("List of error codes", 2026-11). 403 without such a code may come
# from a proxy on the way.
_BY_CODE: Mapping[str, str] = {
    "NoSuchBucket": "create the bucket or correct `checkpoint_uri`",
    "InvalidBucketName": _CORRECT_NAME,
    "AccessDenied": (
        "grant these credentials permission to list, read, write and delete under the prefix"
    ),
    "AllAccessDisabled": "ensure that the bucket is enabled",
    "InvalidAccessKeyId": _CORRECT_KEYS,
    "InvalidToken": "correct AWS_SESSION_TOKEN in the run's environment",
    "SignatureDoesNotMatch": _CORRECT_KEYS,
    "PermanentRedirect": _CORRECT_REGION,
    "AuthorizationHeaderMalformed": _CORRECT_REGION,
    "IllegalLocationConstraintException": _CORRECT_REGION,
}

# Exceptions of botocore before a request is sent. `CredentialRetrievalError` and
# `MetadataRetrievalError` are not among them: their services may answer the next time.
_BY_NAME: Mapping[str, str] = {
    "NoCredentialsError": _SET_KEYS,
    "PartialCredentialsError": _SET_KEYS,
    "ProfileNotFound": "correct AWS_PROFILE, or add the profile to the run's AWS configuration",
    "ConfigParseError": "correct the AWS configuration file of the run",
    "InvalidRegionError": _CORRECT_REGION,
    "ParamValidationError": _CORRECT_NAME,
}

_BY_ERRNO: Mapping[int, str] = {
    errno.EACCES: "ensure that the directory is writable by the run's user or set "
    "`checkpoint_uri` to a different one",
    errno.EPERM: "ensure that the directory is writable by the run's user or set "
    "`checkpoint_uri` to a different one",
    errno.ENOTDIR: _ANOTHER_FOLDER,
    errno.EEXIST: _ANOTHER_FOLDER,
    errno.EISDIR: _ANOTHER_FOLDER,
    errno.ELOOP: _ANOTHER_FOLDER,
    errno.ENAMETOOLONG: "shorten checkpoint_uri",
}

_OF_ADDRESS = frozenset({_BY_CODE["NoSuchBucket"], _CORRECT_NAME})


def is_of_address(remedy: str) -> bool:
    """Does this remedy of `permanent_remedy` concern the store's address, for any caller?"""
    return remedy in _OF_ADDRESS


def permanent_remedy(
    names: Iterable[str], text: str = "", *, code: str | None = None, errno_: int | None = None
) -> str | None:
    """The remedy for an error that each further attempt would meet again.

    Args:
        names: The names of the error's class and of its base classes.
        code: S3's error code; None: S3 did not answer with one.
        errno_: The operating system's; None: it is no error of that.

    Returns:
        A clause in the imperative; None: another attempt may succeed.
    """
    if code is not None:
        return _BY_CODE.get(code)
    if errno_ is not None:
        return _BY_ERRNO.get(errno_)
    known = set(names)
    if "ModuleNotFoundError" in known:
        return "install the module in the run's environment or image"
    if "ValueError" in known and text.startswith("Invalid endpoint"):
        return "correct AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, such as https://s3.example:9000"
    return next((remedy for name, remedy in _BY_NAME.items() if name in known), None)
