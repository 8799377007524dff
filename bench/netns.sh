#!/bin/bash
# bench/netns.sh RTT_US RATE COMMAND... - runs COMMAND in a network namespace from which this host is RTT_US microseconds
# away (half each way), at RATE as tc(8) writes it (10gbit; 0: no bound).
#
# COMMAND finds this host's address in $HOST_ADDRESS, 10.213.77.1; the server has to listen there. Needs root, ip(8), and
# tc(8) with netem in the kernel; status 77, after a line that says what is missing, where something is.
# CRICKET_INJECT plays the same without them.
set -u
rtt=$1 rate=$2
shift 2
name=ck$$
HOST_ADDRESS=10.213.77.1
missing() { echo "netns: $*" >&2; exit 77; }
cleanup() {
	ip link del $name.h 2> /dev/null
	ip netns del $name 2> /dev/null
}
[ "$(id -u)" = 0 ] || missing "not root"
command -v ip > /dev/null || missing "no ip(8)"
command -v tc > /dev/null || missing "no tc(8)"
ip netns add $name 2> /dev/null || missing "no network namespaces here"
trap cleanup EXIT
ip link add $name.h type veth peer name $name.n netns $name || missing "no veth devices here"
ip addr add $HOST_ADDRESS/30 dev $name.h
ip link set $name.h up
ip -n $name addr add 10.213.77.2/30 dev $name.n
ip -n $name link set $name.n up
ip -n $name link set lo up

# A queue that holds what is under way at 100 Gbit/s.
if [ "$rtt" != 0 ] || [ "$rate" != 0 ]; then
	netem=(netem delay "$((rtt / 2))us" limit 1000000)
	[ "$rate" = 0 ] || netem+=(rate "$rate")
	tc qdisc add dev $name.h root "${netem[@]}" 2> /dev/null || missing "no netem in this kernel"
	tc -n $name qdisc add dev $name.n root "${netem[@]}" || missing "no netem in this kernel"
fi
export HOST_ADDRESS
ip netns exec $name "$@"
