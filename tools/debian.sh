# tools/debian.sh - packages and sources of any suite of Debian, to unpack: this machine's packages stay as they are. Read by `source`.
# shellcheck shell=bash

keys=/usr/share/keyrings/debian-archive-keyring.gpg

# The mirror that this machine installs Debian's packages from, without its security archive.
mirror() {
	local found
	found=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' 2>/dev/null |
		grep -v security | head -1) || true
	echo "${found:-http://deb.debian.org/debian}"
}

# apt FOLDER SUITE ARCHITECTURE COMMAND...: apt-get with lists, state and downloads of its own, in FOLDER.
apt() {
	local folder=$1 suite=$2 architecture=$3
	shift 3
	mkdir -p "$folder"/state/lists/partial "$folder"/cache/archives/partial
	touch "$folder/status"
	printf '%s [signed-by=%s] %s %s main\n' deb $keys "$(mirror)" "$suite" deb-src $keys "$(mirror)" "$suite" >"$folder/sources.list"
	(cd "$folder/cache" && apt-get -q -o Dir::Etc::SourceList="$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::State="$folder/state" -o Dir::State::status="$folder/status" -o Dir::Cache="$folder/cache" \
		-o APT::Architecture="$architecture" -o APT::Architectures="$architecture" \
		-o APT::Sandbox::User=root -o Acquire::Retries=1 -o Acquire::http::Timeout=20 "$@")
}
