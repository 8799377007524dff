# tests/systems/lib.sh - root file systems of other systems, for the scripts beside it; read by `source`.
#
# A root is named by its suite (bullseye, trixie, ...). It is made once by debootstrap, in build/roots, and copied for
# each use. Where one cannot be made, the script ends with status 77 and the reason: skipped, not passed.
#
#   CRICKET_MIRROR=URL    where Debian's suites are taken from
#   UBUNTU_MIRROR=URL     the same for Ubuntu's (xenial, bionic, focal, jammy, noble)
#   ARCHIVE_MIRROR=URL    the same for Debian's that are archived (buster)

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
roots=$top/build/roots
used=()
serving=
# A group of processes in the root that ends with the script.
inner=

die() { printf '%s: error: %s\n' "${0##*/}" "$*" >&2; exit 1; }
skip() { printf '%s: skipped: %s\n' "${0##*/}" "$*"; exit 77; }

# least NUMBER NUMBER: the smaller one; the second, if the first is no number.
least() { [ "$1" -lt "$2" ] 2>/dev/null && echo "$1" || echo "$2"; }

leave() {
	local status=${1:-$?}
	[ -z "$inner" ] || kill -KILL -- -"$inner" 2>/dev/null || true
	[ -z "$serving" ] || { kill "$serving"; wait "$serving"; } 2>/dev/null || true
	[ ${#used[@]} -eq 0 ] || rm -rf --one-file-system "${used[@]}"
	exit $status
}
trap leave EXIT

# mirror_of SUITE: where its packages are; nothing where no such place is set.
mirror_of() {
	case $1 in
	xenial | bionic | focal | jammy | noble) echo "${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}" ;;
	buster) echo "${ARCHIVE_MIRROR:-}" ;;
	*) echo "${CRICKET_MIRROR:-http://deb.debian.org/debian}" ;;
	esac
}

# make_root SUITE: build/roots/SUITE, if it is not there.
make_root() {
	local suite=$1 mirror script= components=main
	[ ! -d "$roots/$suite" ] || return 0
	[ "$(id -u)" -eq 0 ] || skip "$suite: only root can make a root file system"
	unshare --mount --pid --fork true 2>/dev/null || skip "$suite: namespaces are not permitted here"
	command -v debootstrap >/dev/null || skip "$suite: debootstrap is missing (tools/deps.sh --systems)"
	mirror=$(mirror_of "$suite")
	[ -n "$mirror" ] || skip "$suite: no mirror is set (see tests/systems/README.md)"
	# A suite that is newer than debootstrap has the script of those before it.
	[ -e "/usr/share/debootstrap/scripts/$suite" ] || case $suite in
	xenial | bionic | focal | jammy | noble) script=/usr/share/debootstrap/scripts/gutsy ;;
	*) script=/usr/share/debootstrap/scripts/sid ;;
	esac
	rm -rf "$roots/$suite.new"
	# It need not survive a power failure, so dpkg does not wait for the disk.
	mkdir -p "$roots/$suite.new/etc/dpkg/dpkg.cfg.d"
	echo force-unsafe-io >"$roots/$suite.new/etc/dpkg/dpkg.cfg.d/unsafe-io"
	# An installed Ubuntu takes packages from universe too.
	[[ $mirror != *ubuntu* ]] || components=main,universe
	debootstrap --variant=minbase --components=$components "$suite" "$roots/$suite.new" "$mirror" $script >"$roots/$suite.log" 2>&1 ||
		skip "$suite: debootstrap from $mirror failed: $(tail -n 1 "$roots/$suite.log")"
	rm -f "$roots/$suite.new"/var/cache/apt/archives/*.deb
	mv "$roots/$suite.new" "$roots/$suite"
}

# fresh SUITE: a copy of that root, in $root, gone when the script ends.
fresh() {
	make_root "$1"
	root=$(mktemp -d "$roots/use.XXXXXX")
	used+=("$root")
	cp -a --reflink=auto "$roots/$1/." "$root"
	mkdir -p "$root/src"
	# Behind a proxy with a certificate of its own, pip needs that.
	cp -L "${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}" "$root/etc/pip-ca.crt" 2>/dev/null || true
	cp -L /etc/resolv.conf "$root/etc/" 2>/dev/null || true
}

# inside COMMAND...: as root of $root, with /proc, /sys, /dev and a /tmp of its own; mounts end with the command. It is the
# root of a namespace, not of a chroot, in which CRIU restores nothing.
inside() {
	unshare --mount --pid --fork --kill-child bash -c '
		set -e
		mount --bind "$1" "$1"
		mount -t proc proc "$1/proc"
		mount --rbind /sys "$1/sys"
		mount --rbind /dev "$1/dev"
		mount -t tmpfs tmpfs "$1/tmp"
		cd "$1"
		shift
		pivot_root . .
		PATH=/usr/sbin:/usr/bin:/sbin:/bin umount -l .
		exec /usr/bin/env -i "$@"' inside "$root" PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
		DEBIAN_FRONTEND=noninteractive PIP_CERT=/etc/pip-ca.crt "$@"
}

# bare COMMAND...: the same for a root without a shell; only /proc is mounted.
bare() {
	unshare --mount --pid --fork bash -c '
		mount --bind "$1" "$1" && mount -t proc proc "$1/proc" && exec env -i PATH=/bin HOME=/tmp /usr/sbin/chroot "$@"' \
		bare "$root" "$@"
}

# serve OPTION...: this tree's server on the emulated GPU, on this system, until the script ends; its address is $server, its unix
# socket $socket.
serve() {
	local folder
	folder=$(mktemp -d "$roots/serve.XXXXXX")
	used+=("$folder")
	CRICKET_CACHE_DIR=$folder/cache "$top/cpu/cricket-rpc-server" --driver emu --listen 127.0.0.1:0 \
		--unix "$folder/socket" "$@" >"$folder/log" 2>&1 &
	serving=$!
	until grep -q "listening on unix:" "$folder/log"; do
		kill -0 "$serving" 2>/dev/null || die "the server has not started: $(cat "$folder/log")"
		sleep 0.1
	done
	server=$(sed -n 's/.*listening on \(127\..*\)/\1/p' "$folder/log")
	socket=$folder/socket
}

# checkout: a clone of this repository in /src of $root, with what is changed here; without git only the files.
checkout() {
	git clone -q --no-hardlinks "$top" "$root/src" 2>/dev/null || true
	sources
}

# sources: this tree, as committed and changed, into /src of $root.
sources() {
	git -C "$top" ls-files -z --cached --others --exclude-standard |
		(cd "$top" && xargs -0 sh -c 'for f; do [ -e "$f" ] && printf "%s\0" "$f"; done' sh) |
		tar -C "$top" --null --no-recursion -T - -cf - | tar -C "$root/src" -xf -
}
