#!/usr/bin/env bash
# tests/systems/images.sh - the images of server and client, built by buildah on a Debian 12 made by debootstrap, and a
# program of the client's image on the server of the other. Only where buildah is installed; no registry is needed.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
base=localhost/cricket-base
storage=$roots/images

# Everything in one folder, without overlays, which a container may not have.
pod() { buildah --root "$storage/root" --runroot "$storage/run" --storage-driver vfs "$@"; }

image() {
	pod bud --isolation chroot --network host --layers=false -f "$top/docker/Dockerfile.$1" -t "cricket-$1" \
		--build-arg BASE=$base --build-arg RUNTIME=$base "$top" >"$roots/image-$1.log" 2>&1 ||
		{ tail -n 40 "$roots/image-$1.log" >&2; die "the image of the $1 is not built"; }
}

# ran NAME COMMAND...: in a container of that image.
ran() {
	local from
	from=$(pod from --pull-never "localhost/cricket-$1")
	shift
	pod run --isolation chroot --network host "$from" -- "$@"
}

command -v buildah >/dev/null || skip "buildah is missing (apt-get install buildah)"
make_root bookworm
mkdir -p "$storage"
used+=("$storage")
container=$(pod from scratch)
pod copy -q "$container" "$roots/bookworm" / >/dev/null
pod copy -q "$container" "${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}" /etc/pip-ca.crt >/dev/null
pod config --env PIP_CERT=/etc/pip-ca.crt "$container"
pod commit -q --rm "$container" $base >/dev/null
image server
image client
for name in server client; do
	echo "images.sh: $name: $(pod images --format '{{.Size}}' "localhost/cricket-$name"), base $(pod images --format '{{.Size}}' $base)"
done
pod inspect --type image localhost/cricket-server | grep -q '"status"' || echo "images.sh: no health check in the format OCI"
ran server /opt/cricket/bin/cricket-rpc-server --listen 127.0.0.1:0 --unix /tmp/cricket.sock >"$roots/image.log" 2>&1 &
serving=$!
until server=$(sed -n 's/.*listening on \(127\..*\)/\1/p' "$roots/image.log" | grep .); do
	kill -0 $serving 2>/dev/null || { cat "$roots/image.log" >&2; die "the server has not started"; }
	sleep 0.2
done
ran client env REMOTE_GPU_ADDRESS="$server" /opt/cricket/apps/vector_add
ran client /opt/cricket/bin/cricket check -s "$server"
echo "images.sh: built and run: ok"
