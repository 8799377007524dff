#!/usr/bin/env bash
# tools/kubernetes.sh - builds Kubernetes 1.20 from Debian 12's source package, with Debian's Go, into build/kubernetes, and
# unpacks the packages that a node needs beside it (etcd, containerd, the CNI plugins) into build/kubernetes/root:
# tests/systems/kubernetes.sh starts a cluster with them. It takes 10 minutes on two idle cores, and 4 GB of disk meanwhile.
#
# Ends with status 3 where there is no network, no apt-get, or another architecture.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/debian.sh

suite=bookworm
home=$PWD/build/kubernetes
tmp=$home.tmp
programs=(kubelet kubectl kube-apiserver kube-controller-manager kube-scheduler kube-proxy)
packages=(etcd-server containerd containernetworking-plugins)
# The last two are what its Makefile calls.
compilers=(golang-1.19-go golang-1.19-src rsync jq)

say() { printf 'kubernetes: %s\n' "$*" >&2; }
missing() { say "$*"; exit 3; }

# unpack FOLDER PACKAGE...
unpack() {
	local folder=$1 deb
	shift
	rm -f "$tmp"/cache/*.deb
	apt "$tmp" $suite amd64 download "$@" >>"$tmp/log" 2>&1 || missing "no packages: $(tail -n 1 "$tmp/log")"
	for deb in "$tmp"/cache/*.deb; do dpkg-deb -x "$deb" "$folder"; done
}

build() {
	local source
	source=$(echo "$tmp"/cache/kubernetes-*/)
	mkdir -p "$source/.go/src/k8s.io"
	ln -s "$source" "$source/.go/src/k8s.io/kubernetes"
	PATH=$tmp/go/usr/lib/go-1.19/bin:$tmp/go/usr/bin:$PATH GOROOT=$tmp/go/usr/lib/go-1.19 GOPATH=$source/.go GOCACHE=$tmp/objects \
		CGO_ENABLED=0 GO111MODULE=off make -C "$source" WHAT="${programs[*]/#/cmd/}" >>"$tmp/log" 2>&1 ||
		{ tail -n 20 "$tmp/log" >&2; say "error: it does not build"; exit 1; }
	mv "${programs[@]/#/$source/_output/local/go/bin/}" "$tmp/"
}

[ "$(uname -m)" = x86_64 ] || missing "for x86-64 only"
command -v apt-get >/dev/null && command -v dpkg-source >/dev/null || missing "no apt-get and dpkg-source to bring Debian's packages by"
[ -r $keys ] || missing "no $keys (apt-get install debian-archive-keyring)"
if [ ! -x "$home/kubelet" ]; then
	rm -rf "$tmp"
	mkdir -p "$tmp"
	say "downloading Debian's $suite: the source package kubernetes, ${packages[*]} ${compilers[*]}"
	{ apt "$tmp" $suite amd64 update && apt "$tmp" $suite amd64 source kubernetes; } >"$tmp/log" 2>&1 ||
		missing "no source package: $(tail -n 1 "$tmp/log")"
	unpack "$tmp/go" "${compilers[@]}"
	unpack "$tmp/root" "${packages[@]}"
	say "building ${programs[*]}"
	build
	rm -rf "$tmp"/{cache,state,status,sources.list,go,objects,log} "$home"
	mv "$tmp" "$home"
fi
say "$home"
