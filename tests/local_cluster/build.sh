#!/usr/bin/env bash
# Builds Kubernetes 1.20.2 from Debian's source package, once, and prints the folder of its binaries.
# With --look it only looks: it prints the folder, or fails where nothing is built yet.
#
# The folder is named by this file's content, and it gets its name only when everything is in it:
# a build that died half-way never counts, and a changed script builds anew.
set -euo pipefail

BINARIES=(kube-apiserver kube-controller-manager kube-scheduler kubelet)
# Debian 12's package `kubernetes` is numbered 1.20.5+really1.20.2.
SOURCE_VERSION=1.20.5+really1.20.2
VERSION=v1.20.2
# The vendored reflect2 reads the runtime's private maps and crashes under Go 1.18 and newer;
# Debian's package of it does not.
REFLECT2=/usr/share/gocode/src/github.com/modern-go/reflect2
# Half of the source is cloud providers and Docker, which nothing here asks for.
TAGS=providerless,dockerless
LOOPBACK_CHECK='if nodeIP.IsLoopback() {'

cache=${XDG_CACHE_HOME:-$HOME/.cache}/prefect-gpu/kubernetes
built=$cache/$(sha256sum "${BASH_SOURCE[0]}" | cut -c1-16)

say() { echo "local-cluster: $*" >&2; }

check_tools() {
	local tool
	for tool in go apt-get dpkg-source; do
		command -v "$tool" >/dev/null && continue
		say "$tool is missing: \`make system-deps\` installs what the build needs (Debian 12)"
		return 1
	done
	[ -d "$REFLECT2" ] && return
	say "golang-github-modern-go-reflect2-dev is missing: \`make system-deps\` installs it"
	return 1
}

# Debian's source packages, whatever this machine's own list of sources names, which stays as it is.
fetch_source() {
	mkdir -p apt/parts apt/lists/partial
	local list
	for list in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
		[ -f "$list" ] || continue
		sed -e 's/^Types:.*/Types: deb-src/' -e 's/^deb\(-src\)\? /deb-src /' "$list" \
			>"apt/parts/$(basename "$list")"
	done
	local options=(-qq -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$PWD/apt/parts"
		-o "Dir::State::Lists=$PWD/apt/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
		-o APT::Sandbox::User=root)
	apt-get "${options[@]}" update >&2
	apt-get "${options[@]}" --download-only source kubernetes >&2
	local description=(kubernetes_*.dsc)
	if [[ ${description[0]} != "kubernetes_$SOURCE_VERSION"* ]]; then
		say "this machine's Debian has ${description[0]}; only $SOURCE_VERSION (Debian 12) is known to build"
		return 1
	fi
	mkdir -p go/src/k8s.io
	dpkg-source --no-check -x "${description[0]}" go/src/k8s.io/kubernetes >/dev/null
	cd go/src/k8s.io/kubernetes
}

patch_source() {
	rm -r vendor/github.com/modern-go/reflect2
	cp -r "$REFLECT2" vendor/github.com/modern-go/reflect2
	# A node's address shall be 127.0.0.1 or another of loopback, all of which are this machine's own
	# although no interface lists them: nobody outside it reaches a kubelet of ours.
	local file=pkg/kubelet/kubelet_node_status.go
	grep -q "$LOOPBACK_CHECK" "$file"
	sed -i "/$LOOPBACK_CHECK/{n;s/return .*/return nil/}" "$file"
}

# The API server does not compile without this file, and the source package does not hold it.
generate_openapi() {
	local packages
	packages=$(cd staging/src && grep -rl --include='*.go' '+k8s:openapi-gen=true' \
		k8s.io/{api,apiextensions-apiserver,apimachinery,kube-aggregator} |
		xargs -n1 dirname | sort -u | sed 's#^#k8s.io/kubernetes/vendor/#' | paste -sd,)
	go build -o "$room/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
	"$room/openapi-gen" --go-header-file /dev/null --report-filename /dev/null \
		--output-file-base zz_generated.openapi --output-base "$GOPATH/src" \
		--output-package k8s.io/kubernetes/pkg/generated/openapi --input-dirs "$packages"
}

compile() {
	# `--version` prints the one, the API server's /version and the clients' user agents the other.
	local flags="-s -w" package
	for package in component-base/version client-go/pkg/version; do
		flags+=" -X k8s.io/kubernetes/vendor/k8s.io/$package.gitVersion=$VERSION"
		flags+=" -X k8s.io/kubernetes/vendor/k8s.io/$package.gitMajor=1"
		flags+=" -X k8s.io/kubernetes/vendor/k8s.io/$package.gitMinor=20"
	done
	mkdir "$room/bin"
	go build -tags "$TAGS" -o "$room/bin/" -ldflags "$flags" "${BINARIES[@]/#/./cmd/}"
}

build() {
	check_tools
	rm -rf "$cache"/.building-* # of builds that died: this one holds the lock
	room=$(mktemp -d "$cache/.building-XXXXXX")
	trap 'rm -rf "$room"' EXIT
	export GOPATH=$room/go GOCACHE=$room/gocache GOTMPDIR=$room GO111MODULE=off GOFLAGS=-trimpath CGO_ENABLED=0
	cd "$room"
	say "building Kubernetes $VERSION; this takes some minutes, once"
	fetch_source
	patch_source
	generate_openapi
	compile
	mv -T "$room/bin" "$built"
	say "built in $SECONDS s"
}

if [ "${1:-}" = --look ]; then
	[ -d "$built" ] && echo "$built"
	exit
fi
mkdir -p "$cache"
exec {lock}>"$cache/lock"
flock "$lock" # a second build waits for the first and then finds its result
[ -d "$built" ] || build
echo "$built"
