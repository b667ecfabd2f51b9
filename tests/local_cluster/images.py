"""Container images without a registry: archives made here and imported into containerd.

The format is that of `docker save`: a manifest, a configuration and one layer.
"""

import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path

# Not "latest", which Kubernetes would try to pull each time.
BUSYBOX = "docker.io/library/busybox:1"
PAUSE = "registry.k8s.io/pause:3.6"

_BINARY = Path("/bin/busybox")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def write_archive(path: Path) -> None:
    """Write an archive of both images; they share their layer.

    The pause container only has to exist: containerd kills it when its pod ends.
    """
    layer = _layer()
    configurations = {
        BUSYBOX: _configuration(layer, ["/bin/sh"]),
        PAUSE: _configuration(layer, ["/bin/sleep", "infinity"]),
    }
    manifest = [
        {"Config": _file_name(content), "RepoTags": [name], "Layers": ["layer.tar"]}
        for name, content in configurations.items()
    ]
    with tarfile.open(path, "w") as archive:
        _add(archive, "layer.tar", layer)
        for content in configurations.values():
            _add(archive, _file_name(content), content)
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _layer() -> bytes:
    """A root folder with Debian's static busybox and a link for each of its commands."""
    listed = subprocess.run([_BINARY, "--list"], check=True, capture_output=True, text=True)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for folder, mode in (("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777)):
            _add_entry(layer, folder, tarfile.DIRTYPE, mode)
        _add(layer, "bin/busybox", _BINARY.read_bytes(), 0o755)
        for command in listed.stdout.split():
            if command != "busybox":
                _add_entry(layer, f"bin/{command}", tarfile.SYMTYPE, 0o777, target="busybox")
        _add(layer, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\n")
        _add(layer, "etc/group", b"root:x:0:\n")
    return buffer.getvalue()


def _configuration(layer: bytes, command: list[str]) -> bytes:
    return json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": command, "Env": [f"PATH={_PATH}"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer)}"]},
        }
    ).encode()


def _file_name(content: bytes) -> str:
    return f"{_digest(content)}.json"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _add_entry(
    archive: tarfile.TarFile, name: str, kind: bytes, mode: int, target: str = ""
) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname = kind, mode, target
    archive.addfile(entry)
