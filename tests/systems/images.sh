#!/usr/bin/env bash
# tests/systems/images.sh [quick] [pytorch] - the images of server and client, built by buildah on a Debian 12 made by
# debootstrap; a program of the client's image on the server of the other; then, where podman is installed, compose.yaml
# by podman-compose. In place of the image of PyTorch's makers, that of PyTorch gets Debian with Python, which finds the client
# as driver. Only where buildah is installed; no registry is needed.
#
#   quick      only the last stage of each image; what the stage before it would build is what `make` has built here
#   pytorch    with PyTorch from PyPI, which finds the emulated GPU, and copies a tensor to it and back. Needs 30 GB
set -euo pipefail
source "$(dirname "$0")/lib.sh"
base=localhost/cricket-base
storage=$roots/images
torch=torch==2.11.0
counts='import ctypes, os; n = ctypes.c_int(); c = ctypes.CDLL("libcuda.so.1"); print(c.cuInit(0), c.cuDeviceGetCount(ctypes.byref(n)), n.value, os.path.exists(os.environ["TRITON_LIBCUDA_PATH"] + "/libcuda.so.1"))'
copies='import torch; x = torch.arange(1000.0); assert torch.equal(x.cuda().cpu(), x); print(torch.__version__, torch.cuda.get_device_name())'

# Everything in one folder, without overlays, which a container may not have.
pod() { buildah --root "$storage/root" --runroot "$storage/run" --storage-driver vfs "$@"; }

# What the first stages of the images build, where the last ones look for it below $storage/context; but not of the client for
# older systems, which the base is not.
context() {
	local here=$storage/context
	mkdir -p "$here/src/tests/test_apps/bin" "$here/tests/test_apps"
	STRIP=1 DESTDIR=$here/$1 "$top/tools/install.sh" "$1" /opt/cricket
	rm -rf "$here/opt"
	mv "$here/$1/opt" "$here/opt"
	cp "$top"/tests/test_apps/bin/{vector_add,matmul} "$here/src/tests/test_apps/bin/"
	cp "$top/tests/test_apps/pytorch_minimal.py" "$here/tests/test_apps/"
	install -D "$top/tools/deps.sh" "$here/tools/deps.sh"
}

# The last stage of a Dockerfile.
last_stage() {
	grep '^ARG' "$1"
	tac "$1" | sed '/^FROM/q' | tac | sed 's|^COPY --from=build /|COPY |'
}

image() {
	local folder=$top file=$top/docker/Dockerfile.$1
	if [ "$quick" = yes ]; then
		context "$([ "$1" = server ] && echo server || echo client)"
		folder=$storage/context file=$storage/Dockerfile.$1
		last_stage "$top/docker/Dockerfile.$1" >"$file"
	fi
	pod bud --isolation chroot --network host --layers=false -f "$file" -t "cricket-$1" \
		--build-arg BASE=$base --build-arg RUNTIME=$base --build-arg PYTORCH=localhost/pytorch "$folder" >"$roots/image-$1.log" 2>&1 ||
		{ tail -n 40 "$roots/image-$1.log" >&2; die "the image of the $1 is not built"; }
	pod tag "localhost/cricket-$1" "localhost/docker_$1"	# as podman-compose calls it
	echo "images.sh: $1: $(pod images --format '{{.Size}}' "localhost/cricket-$1" | head -n 1), base $(pod images --format '{{.Size}}' $base)"
}

base_image() {
	local container
	container=$(pod from scratch)
	pod copy -q "$container" "$roots/bookworm" / >/dev/null
	pod copy -q "$container" "${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}" /etc/pip-ca.crt >/dev/null
	pod config --env PIP_CERT=/etc/pip-ca.crt "$container"
	pod commit -q --rm "$container" $base >/dev/null
}

# localhost/pytorch
pytorch_base() {
	local container
	container=$(pod from --pull-never $base)
	# shellcheck disable=SC2046
	pod run --isolation chroot --network host "$container" -- sh -ec '
		apt-get -q update && apt-get -q -y install --no-install-recommends python3 python3-pip
		[ $# -eq 0 ] || python3 -m pip install -q --break-system-packages --root-user-action=ignore --no-cache-dir --no-compile "$@"' \
		pip $([ $pytorch = no ] || echo $torch numpy) >"$roots/image-torch.log" 2>&1 ||
		{ tail -n 40 "$roots/image-torch.log" >&2; die "no Python, or no $torch"; }
	pod commit -q --rm "$container" localhost/pytorch >/dev/null
}

# ran NAME COMMAND...: in a container of that image.
ran() {
	local from
	from=$(pod from --pull-never "localhost/cricket-$1")
	shift
	pod run --isolation chroot --network host "$from" -- "$@"
}

# What podman needs here: the images above, and limits that root of a container may set.
podman_settings() {
	local files processes
	files=$(least "$(ulimit -Hn)" 8192)
	processes=$(least "$(ulimit -Hu)" 8192)
	cat >"$1/storage.conf" <<-END
		[storage]
		driver = "vfs"
		graphroot = "$storage/root"
		runroot = "$storage/run"
	END
	cat >"$1/containers.conf" <<-END
		[containers]
		default_ulimits = ["nofile=$files:$files", "nproc=$processes:$processes"]
		[engine]
		cgroup_manager = "cgroupfs"
		events_logger = "file"
		[network]
		network_backend = "netavark"
		network_config_dir = "$1/networks"
	END
}

# What runs in namespaces of its own: the services as compose.yaml starts them. Podman makes health checks by timers of
# systemd, which is not here, and that of Debian 12 does not wait for them: so they are made and waited for here.
cat_compose() {
	cat <<-'END'
		set -eu
		export DISABLE_HC_SYSTEMD=true
		umount /sys/fs/cgroup/unified 2>/dev/null || true	# crun takes no mixture of both versions
		ip link set lo up
		service=$1
		shift
		"$@" up -d server
		n=0
		until podman healthcheck run docker_server_1 >/dev/null; do
			n=$((n + 1))
			[ $n -lt 300 ] || { podman logs docker_server_1; exit 1; }
			sleep 1
		done
		status=0
		"$@" up --exit-code-from "$service" "$service" || status=$?
		"$@" down
		exit $status
	END
}

# composed SERVICE FILE...: until the service ends with status 0.
composed() {
	local service=$1 folder file files=()
	command -v podman >/dev/null || { echo "images.sh: no podman: $service is not tried by compose"; return 0; }
	folder=$(mktemp -d "$roots/use.XXXXXX")
	used+=("$folder")
	shift
	for file; do files+=(-f "$file"); done
	podman_settings "$folder"
	cat_compose >"$folder/compose"
	CONTAINERS_STORAGE_CONF=$folder/storage.conf CONTAINERS_CONF=$folder/containers.conf unshare --net --mount \
		sh "$folder/compose" "$service" "$top/build/schemas/bin/python3" -m podman_compose -p docker "${files[@]}" ||
		die "$service by compose: status $?"
	echo "images.sh: $service by compose: ok"
}

quick=no pytorch=no
for word; do
	case $word in
	quick | pytorch) declare "$word=yes" ;;
	*) die "unknown word $word (quick, pytorch)" ;;
	esac
done
command -v buildah >/dev/null || skip "buildah is missing (apt-get install buildah podman crun netavark aardvark-dns iptables)"
"$top/tools/schemas.sh"
make_root bookworm
mkdir -p "$storage"
used+=("$storage")
base_image
image server
image client
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
composed client "$top/docker/compose.yaml"
pytorch_base
image pytorch
found=$(ran pytorch env REMOTE_GPU_ADDRESS="$server" python3 -c "$counts")
[ "$found" = "0 0 1 True" ] || die "Python does not find the client as driver: $found"
[ $pytorch = no ] || ran pytorch env REMOTE_GPU_ADDRESS="$server" python3 -c "$copies"
echo "images.sh: the image of PyTorch$([ $pytorch = yes ] || echo ', without it'): ok"
