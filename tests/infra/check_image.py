"""Do the images build, and do they run where Kubernetes is strict? Debian's own Python is the base.

    python tests/infra/check_image.py [--base IMAGE]

As root on Debian, with the packages buildah, debootstrap and runc; it takes minutes. Each command
runs through the entrypoint of Prefect's own image, as prefect-helm's charts call it: with a root
that is read-only, without capabilities, as the chart's uid and as one that OpenShift makes up. It
prints a line for each check, and its exit status is 1 if one of them failed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENTRYPOINT = ("/usr/bin/tini", "-g", "--", "/opt/prefect/entrypoint.sh")
# uid of prefect-helm's charts, and the first of a namespace's range in OpenShift's documentation.
UIDS = (1001, 1_000_680_000)
BASE = "localhost/prefect-gpu-check-base"
IMAGE = "localhost/prefect-gpu-check"
FLOWS_IMAGE = "localhost/prefect-gpu-check-flows"
# What pip and TLS need to reach the package index of a machine that has its own.
FROM_HOST = ("/etc/pip.conf", f"{Path.home()}/.config/pip", "/etc/ssl/certs")


@dataclass(frozen=True)
class Image:
    """An image as a folder, and the folder that its containers see as /check."""

    rootfs: Path
    shared: Path

    def run(self, uid: int, *command: str, **env: str) -> str:
        """What does this command print in a new container with a root that is read-only?

        Raises:
            RuntimeError: It ended with another exit code than 0; the message has its output.
        """
        with tempfile.TemporaryDirectory() as bundle:
            config = container(self, uid, command, env)
            Path(bundle, "config.json").write_text(json.dumps(config), encoding="utf-8")
            name = f"prefect-gpu-check-{os.getpid()}-{uid}"
            done = subprocess.run(
                ["runc", "run", "--bundle", bundle, name],
                capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout


def container(image: Image, uid: int, command: Sequence[str], env: Mapping[str, str]) -> object:
    """The OCI runtime's description of one container, as strict as Pod Security `restricted`."""
    scratch = ["nosuid", "nodev", "mode=1777"]
    mounts = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]},
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": scratch},
        {"destination": "/home/prefect", "type": "tmpfs", "source": "tmpfs", "options": scratch},
        {"destination": "/check", "type": "bind", "source": str(image.shared),
         "options": ["bind", "ro"]},
    ]  # fmt: skip
    variables = {
        "PATH": "/opt/prefect-gpu/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/home/prefect",
        **env,
    }
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": uid, "gid": 0},
            "args": [*ENTRYPOINT, *command],
            "env": [f"{name}={value}" for name, value in variables.items()],
            "cwd": "/home/prefect",
            "noNewPrivileges": True,
        },
        "root": {"path": str(image.rootfs), "readonly": True},
        "mounts": mounts,
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")]},
    }


def prefect_starts(image: Image, uid: int) -> None:
    """The default command of the image."""
    assert "Version:" in image.run(uid, "prefect", "version")


def the_worker_type_is_known(image: Image, uid: int) -> None:
    """prefect-helm starts it with --type and --install-policy."""
    shown = image.run(uid, "prefect", "worker", "start", "--help")
    assert "--install-policy" in shown
    assert "gpu-kubernetes" in image.run(uid, "prefect-gpu", "setup", "--help")


def the_package_works(image: Image, uid: int) -> None:
    """All that the wheel's own check asks for."""
    image.run(uid, "python", "-I", "/check/check_installed.py")


def extra_packages_are_installed(image: Image, uid: int) -> None:
    """EXTRA_PIP_PACKAGES, as in Prefect's own image."""
    wheel = "/check/extra_package-1.0-py3-none-any.whl"
    asked = ("python", "-c", "import extra_package; print(extra_package.ANSWER)")
    assert image.run(uid, *asked, EXTRA_PIP_PACKAGES=wheel).splitlines()[-1] == "42"


def the_sbom_names_every_package(image: Image, uid: int) -> None:
    """The CycloneDX file next to the environment holds what pip finds in it."""
    found = json.loads(image.run(uid, "pip", "list", "--format=json", "--local"))
    sbom = json.loads(image.run(uid, "cat", "/usr/share/sbom/prefect-gpu.cdx.json"))
    named = {(item["name"].lower(), item["version"]) for item in sbom["components"]}
    missing = {(item["name"].lower(), item["version"]) for item in found} - named
    assert {name for name, _ in missing} <= {"prefect-gpu"}, missing  # it is the SBOM's subject
    assert sbom["metadata"]["component"]["name"] == "prefect-gpu"


CHECKS: tuple[Callable[[Image, int], None], ...] = (
    prefect_starts,
    the_worker_type_is_known,
    the_package_works,
    extra_packages_are_installed,
    the_sbom_names_every_package,
)


def main() -> int:
    """Build both images, check the first one with each uid, and the second one's flows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", help="an image to build on; default: Debian, made here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="image-check-") as folder:
        store = Store(Path(folder))
        store.build("Dockerfile", IMAGE, PYTHON=options.base or store.debian())
        store.build("flows.Dockerfile", FLOWS_IMAGE, WORKER=IMAGE)
        shared = shared_folder(Path(folder, "shared"))
        image = Image(store.rootfs(IMAGE), shared)
        checks = [(check.__name__, check, image, uid) for check in CHECKS for uid in UIDS]
        flows = Image(store.rootfs(FLOWS_IMAGE), shared)
        checks += [("flows_are_there", flows_are_there, flows, uid) for uid in UIDS]
        try:
            return sum(not passed(*check) for check in checks) and 1
        finally:
            store.close()


def flows_are_there(image: Image, uid: int) -> None:
    """Where Prefect looks for the code of an image."""
    assert "train_digits.py" in image.run(uid, "ls", "/opt/prefect/flows")


def passed(name: str, check: Callable[[Image, int], None], image: Image, uid: int) -> bool:
    """Run one check, and say how it went."""
    try:
        check(image, uid)
    except Exception as error:
        print(f"FAILED  {name} as uid {uid}: {error}", flush=True)
        return False
    print(f"ok      {name} as uid {uid}", flush=True)
    return True


def shared_folder(folder: Path) -> Path:
    """What the checks need inside: the wheel's own check, and a package to install."""
    folder.mkdir()
    source = ROOT / "tests" / "installed" / "check_installed.py"
    (folder / source.name).write_bytes(source.read_bytes())
    info = "extra_package-1.0.dist-info"
    files = {
        "extra_package.py": "ANSWER = 42\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: extra-package\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": f"extra_package.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n",
    }
    with zipfile.ZipFile(folder / "extra_package-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return folder


class Store:
    """Images in a folder of their own, built without a daemon."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._options = ("--root", str(folder / "store"), "--runroot", str(folder / "run"))

    def debian(self) -> str:
        """Debian 12 with its Python as `python`, as an image."""
        tree = self._folder / "debian"
        packages = "--include=python3,python3-venv,ca-certificates"
        _run("debootstrap", "--variant=minbase", packages, "bookworm", str(tree))
        (tree / "usr/bin/python").symlink_to("python3")
        container_id = self._buildah("from", "scratch").strip()
        self._buildah("copy", "--quiet", container_id, str(tree), "/")
        self._buildah("commit", "--quiet", "--rm", container_id, BASE)
        return BASE

    def build(self, dockerfile: str, name: str, **arguments: str) -> None:
        """Build this image of `infra/image`."""
        words = [
            word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")
        ]
        for path in (found for found in FROM_HOST if Path(found).exists()):
            words += ["--volume", f"{path}:{path}:ro"]
        file = f"--file={ROOT / 'infra' / 'image' / dockerfile}"
        self._buildah("build", *words, file, f"--tag={name}", str(ROOT))

    def rootfs(self, name: str) -> Path:
        """The folder that holds this image."""
        return Path(
            self._buildah("mount", self._buildah("from", "--pull-never", name).strip()).strip()
        )

    def close(self) -> None:
        """Give back what is mounted."""
        self._buildah("umount", "--all")
        self._buildah("rm", "--all")

    def _buildah(self, *words: str) -> str:
        return _run("buildah", *self._options, *words)


def _run(*words: str) -> str:
    environment = {**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
    done = subprocess.run(words, stdout=subprocess.PIPE, env=environment, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words[:4])} ... ended with exit code {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
