"""Which images can never be pulled, by the words of kubelets, runtimes and registries."""

import pytest

from gpu_core.decisions.kubernetes.status.image_errors import why_never_pulled

IMAGE = "registry.example/team/train:1.2"
RESOLVE = (
    'failed to pull and unpack image "registry.example/team/train:1.2": failed to resolve '
    'reference "registry.example/team/train:1.2": '
)
NOT_FOUND = f"rpc error: code = NotFound desc = {RESOLVE}registry.example/team/train:1.2: not found"
UNAUTHORIZED = (
    f"{RESOLVE}unexpected status from HEAD request to https://registry.example/v2/team/train/"
    "manifests/1.2: 401 Unauthorized"
)


def waiting(words="", reason="ErrImagePull", image=IMAGE, name="prefect-job"):
    """A pod whose container waits for its image."""
    status = {"name": name, "image": image, "state": {"waiting": {"reason": reason}}}
    if words:
        status["state"]["waiting"]["message"] = words
    return {
        "spec": {"containers": [{"name": name, "image": image}]},
        "status": {"phase": "Pending", "containerStatuses": [status]},
    }


def running(image=IMAGE):
    """A pod that has its image."""
    return {
        "spec": {"containers": [{"name": "prefect-job", "image": image}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "prefect-job", "imageID": "sha256:1", "state": {}}],
        },
    }


PUSH = "Ensure that the `image` job variable is correct and that the image has been pushed."
ADD_KEYS = (
    "Ensure that the `image` job variable is correct and that a pull secret for its "
    "registry exists."
)


@pytest.mark.parametrize(
    ("words", "want"),
    [
        pytest.param(NOT_FOUND, PUSH, id="containerd: no such tag"),
        pytest.param(
            f'Back-off pulling image "{IMAGE}": ErrImagePull: {NOT_FOUND}', PUSH, id="back-off"
        ),
        pytest.param(
            "manifest for team/train:1.2 not found: manifest unknown: manifest unknown", PUSH,
            id="Docker: no such tag",
        ),
        pytest.param(
            "reading manifest 1.2 in registry.example/team/train: name unknown", PUSH, id="CRI-O"
        ),
        pytest.param(UNAUTHORIZED, ADD_KEYS, id="no pull secret"),
        pytest.param(
            f"{RESOLVE}pull access denied, repository does not exist or may require "
            "authorization: server message: insufficient_scope: authorization failed", ADD_KEYS,
            id="Docker Hub: private, or not there",
        ),
        pytest.param(f"{RESOLVE}failed to authorize: 403 Forbidden", ADD_KEYS, id="forbidden"),
        pytest.param("no basic auth credentials", ADD_KEYS, id="no credentials"),
        pytest.param(f"{RESOLVE}429 Too Many Requests - toomanyrequests", None, id="rate limit"),
        pytest.param(f"{RESOLVE}503 Service Unavailable", None, id="the registry is away"),
        pytest.param(f"{RESOLVE}dial tcp 10.0.0.1:443: i/o timeout", None, id="a time-out"),
        pytest.param("dial tcp: lookup registry.example: no such host", None, id="a name server"),
        pytest.param("x509: certificate signed by unknown authority", None, id="a certificate"),
        pytest.param("denied: Your authorization token has expired", None, id="a node's token"),
        pytest.param("no match for platform in manifest: not found", None, id="another platform"),
        pytest.param("write /var/lib/x: no space left on device", None, id="a full disk"),
        pytest.param(
            "failed to extract layer sha256:1: content digest sha256:1: not found", None,
            id="a damaged store of a node",
        ),
        pytest.param("", None, id="no words"),
    ],
)  # fmt: skip
def test_the_words_of_a_failed_pull(words, want):
    found = why_never_pulled([waiting(words)])
    assert (found is None) == (want is None)
    if found is not None and want is not None:
        assert found.startswith(f"Image '{IMAGE}' of container prefect-job ")
        assert found.endswith(want)
        assert "rpc error" not in found


def test_the_image_itself_is_not_read_as_an_answer():
    image = "registry.example/team/train:503"
    assert why_never_pulled([waiting(f"{image}: not found", image=image)]) is not None


def test_a_name_that_is_none():
    found = why_never_pulled([waiting("couldn't parse", "InvalidImageName", "Team/Train:1.2")])
    assert found == (
        "Image 'Team/Train:1.2' of container prefect-job is not a valid name: couldn't "
        "parse. Ensure that the `image` job variable is correct."
    )


def test_events_say_why_where_the_status_does_not():
    """Before Kubernetes 1.32."""
    events = [
        {"reason": "Failed", "message": f'Failed to pull image "{IMAGE}": {NOT_FOUND}'},
        {"reason": "Failed", "message": "Error: ErrImagePull"},
        {"reason": "BackOff", "message": f'Back-off pulling image "{IMAGE}"'},
    ]
    pod = waiting(f'Back-off pulling image "{IMAGE}"', "ImagePullBackOff")
    assert PUSH in (why_never_pulled([pod], events) or "")
    other = waiting('Back-off pulling image "b"', "ImagePullBackOff", image="b")
    assert why_never_pulled([other], events) is None


def test_an_image_that_another_node_has_is_there():
    assert why_never_pulled([running(), waiting(NOT_FOUND)]) is None
    assert why_never_pulled([running("other"), waiting(NOT_FOUND)]) is not None


def test_a_new_node_may_lack_credentials_at_first():
    assert why_never_pulled([waiting(UNAUTHORIZED)], is_new_node=True) is None
    assert why_never_pulled([waiting(NOT_FOUND)], is_new_node=True) is not None


@pytest.mark.parametrize("reason", ["ContainerCreating", "CreateContainerConfigError", ""])
def test_what_waits_for_something_else(reason):
    assert why_never_pulled([waiting("secret not found", reason)]) is None


@pytest.mark.parametrize("pod", [{}, {"spec": {}, "status": {}}, {"status": None}])
def test_a_pod_without_a_status(pod):
    assert why_never_pulled([pod]) is None
