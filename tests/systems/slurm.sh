#!/usr/bin/env bash
# tests/systems/slurm.sh - the Slurm plugin on a cluster of its own: slurmctld, three slurmd and munge on this machine,
# two servers with emulated GPUs. It must be root, and leaves nothing.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)

say() { printf 'slurm.sh: %s\n' "$*"; }
skip() { say "skipped: $*"; exit 77; }
die() {
	printf 'slurm.sh: error: %s\n' "$*" >&2
	squeue -a >&2 || true
	tail -n 25 "$home"/*.log >&2 || true
	exit 1
}

[ "$(id -u)" -eq 0 ] || skip "only root can start slurmd"
for program in slurmctld slurmd srun munged unshare; do
	command -v $program >/dev/null || skip "no $program (tools/deps.sh --slurm)"
done
for file in cricket-rpc-server cricket-client.so slurm-cricket.so; do
	[ -e "$top/cpu/$file" ] || skip "cpu/$file is missing: tools/deps.sh --slurm && make cpu"
done

# Others enter this folder: munge's clients, and a job that is not root's.
home=$(mktemp -d /tmp/cricket-slurm.XXXXXX)
chmod 755 "$home"
daemons=() servers=()
leave() {
	local status=$?
	trap - EXIT
	scancel --state=PENDING,RUNNING --user=root 2>/dev/null || true
	for pid in "${daemons[@]}"; do kill "$pid" 2>/dev/null || true; done
	for pid in "${servers[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
	for pid in "${daemons[@]}" "${servers[@]}"; do wait "$pid" 2>/dev/null || true; done
	rm -rf "$home"
	exit $status
}
trap leave EXIT

# start NAME COMMAND...: in the background, with its log.
start() {
	local name=$1
	shift
	"$@" >"$home/$name.log" 2>&1 &
	daemons+=($!)
}

# await SECONDS WHAT COMMAND...: until the command is true.
await() {
	local left=$(($1 * 10)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		[ $((left--)) -gt 0 ] || die "waited in vain: $what"
		sleep 0.1
	done
}

# Free ports of this machine, one a line: none that the kernel may give to a client meanwhile.
ports() { PYTHONPATH=$top/tests/e2e python3 -c 'import sys, ports; [print(ports.free_port()) for _ in range(int(sys.argv[1]))]' "$1"; }
mapfile -t port < <(ports 6)
mkdir -p "$home"/{ctld,n1,n2,n3,munge,etc,cricket/jobs}
chmod 700 "$home/cricket"

configure() {
	local node
	{
		cat <<EOF
ClusterName=test
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=${port[0]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$home/munge/socket
CredType=cred/munge
StateSaveLocation=$home/ctld
SlurmctldPidFile=$home/ctld/pid
SlurmdPidFile=$home/%n/pid
SlurmdSpoolDir=$home/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
PlugStackConfig=$home/etc/plugstack.conf
JobSubmitPlugins=lua
Licenses=cricket_h200:2,cricket_gpu:2
PrologFlags=Alloc
ReturnToService=2
SlurmdParameters=config_overrides
MpiDefault=none
KillWait=2
EOF
		for node in 1 2 3; do
			echo "NodeName=n$node NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=${port[$node]} CPUs=8 State=UNKNOWN"
		done
		echo "PartitionName=cpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES:8"
	} >"$home/etc/slurm.conf"
	echo "required $top/cpu/slurm-cricket.so dir=$home/cricket client=$top/cpu/cricket-client.so command=$top/cpu/cricket wait=30" \
		>"$home/etc/plugstack.conf"
	cp "$top/slurm/job_submit.lua" "$home/etc/"
	echo CgroupAutomount=no >"$home/etc/cgroup.conf"
	printf '127.0.0.1:%s h200 2\n127.0.0.1:%s gpu 2\n' "${port[4]}" "${port[5]}" >"$home/cricket/servers"
}

# serve NAME PORT: a server with two emulated GPUs, which knows a user of its own besides the jobs. Like one on another host, it
# does not see the processes of the jobs, so only a report ends the session of a killed one before the time of --keep.
serve() {
	local tokens=$home/cricket/127.0.0.1:$2.tokens
	cp "$home/own.line" "$tokens"
	chmod 640 "$tokens"
	start "$1" env CRICKET_EMU=devices=2 CRICKET_CACHE_DIR="$home/$1.cache" unshare --pid --fork --kill-child --mount-proc \
		"$top/cpu/cricket-rpc-server" --driver emu --listen "127.0.0.1:$2" --unix "$home/$1.sock" --token-file "$tokens"
	servers+=("${daemons[-1]}") # unshare ignores other signals than KILL
	unset 'daemons[-1]'
}

configure
export SLURM_CONF=$home/etc/slurm.conf
"$top/cpu/cricket-rpc-server" --new-token own | sed -n 's/^line: *//p' >"$home/own.line"
dd if=/dev/urandom of="$home/munge/key" bs=128 count=1 status=none
chmod 600 "$home/munge/key"
start munged munged --foreground --force --key-file="$home/munge/key" --socket="$home/munge/socket" \
	--pid-file="$home/munge/pid" --log-file="$home/munged.own.log" --seed-file="$home/munge/seed"
serve server1 "${port[4]}"
serve server2 "${port[5]}"
await 20 'munge' test -S "$home/munge/socket"
await 20 'the first server' test -S "$home/server1.sock"
start slurmctld slurmctld -D -i
for node in n1 n2 n3; do start $node slurmd -D -N $node; done
all_idle() { [ "$(sinfo -h -o %D -t idle)" = 3 ]; }
await 60 'three idle nodes' all_idle
say "slurmctld $(scontrol --version | cut -d' ' -f2) with three nodes, two servers with two emulated GPUs each"

# What a job runs: says what it sees, and ends when the file that it is given appears.
cat >"$home/job.py" <<'EOF'
import ctypes, os, sys, time
cuda, count, context, memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20)) == 0
print("GPUs", count.value, os.environ["REMOTE_GPU_ADDRESS"], os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]) and os.path.exists(__file__):
    time.sleep(0.1)
EOF

# begin NAME OPTION...: a job in the background that runs until $home/NAME.end exists.
begin() {
	local name=$1
	shift
	srun -J "$name" -n 1 "$@" /usr/bin/python3 "$home/job.py" "$home/$name.end" >"$home/$name.log" 2>&1 &
	daemons+=($!)
}
runs() { grep -q "^GPUs $2 127.0.0.1:$3 " "$home/$1.log"; }
gone() { [ -z "$(squeue -h -a -o %A)" ] && [ -z "$(ls "$home/cricket/jobs")" ]; }
tokens() { grep -c '@slurm:' "$home/cricket/127.0.0.1:$1.tokens"; }
sessions() { "$top/cpu/cricket" status --json -s "unix:$home/$1.sock" | python3 -c 'import json,sys; print(json.load(sys.stdin)["session_count"])'; }
no_session() { [ "$(sessions "$1")" = 0 ]; }

as_user() { (cd / && setpriv --reuid=65534 --regid=65534 --clear-groups "$@"); }

say 'two jobs share the GPUs of a server, a third waits'
begin one --cricket=1 --cricket-type=h200
begin two --cricket=1 --cricket-type=h200
await 60 'job one' runs one 1 "${port[4]}"
await 60 'job two' runs two 1 "${port[4]}"
[ "$(grep -h '^GPUs' "$home/one.log" "$home/two.log" | awk '{ print $4 }' | sort | tr '\n' ' ')" = '0 1 ' ] ||
	die 'the two jobs do not have different GPUs'
[ "$(tokens "${port[4]}")" = 2 ] || die 'not one token for each job'
[ "$(sessions server1)" = 2 ] || die 'not one session for each job'
begin three --cricket=1 --cricket-type=h200
waits_for() { [ "$(squeue -h -t PENDING -n "$1" -o %r)" = "$2" ]; }
await 60 'job three to wait for licences' waits_for three Licenses

say 'a killed job leaves nothing, and the third begins'
scancel --signal=KILL -n one
await 60 'job three' runs three 1 "${port[4]}"
[ "$(tokens "${port[4]}")" = 2 ] || die 'the token of the killed job stayed'
touch "$home/two.end" "$home/three.end"
await 60 'the end of all jobs' gone
[ "$(tokens "${port[4]}")" = 0 ] || die 'a token stayed'
cmp -s "$home/own.line" "$home/cricket/127.0.0.1:${port[4]}.tokens" || die "the server's own tokens have changed"
await 30 'the end of all sessions' no_session server1
grep -hq 'cricket: job .* 1 GPUs of type h200 at .* GPU seconds' "$home"/n?.log || die 'no line about the time used'

say 'the session of a killed program ends with its job, and with its step'
begin four --cricket=1 --cricket-type=h200
await 60 'job four' runs four 1 "${port[4]}"
scancel --signal=KILL -n four
await 30 'the end of that session' no_session server1
cat >"$home/steps.sh" <<EOF
#!/bin/sh
srun -n 1 /usr/bin/python3 $home/job.py $home/never
sleep 600
EOF
sbatch -J steps -n 1 --cricket=1 --cricket-type=h200 -o "$home/steps.log" "$home/steps.sh" >/dev/null || die 'a job with steps'
await 60 'its first step' runs steps 1 "${port[4]}"
scancel --signal=KILL "$(squeue -h -n steps -o %A).0"
await 30 'the end of the session of the step' no_session server1
[ -n "$(squeue -h -n steps -o %A)" ] || die 'the job has ended with its step'
scancel -n steps
await 60 'the end of all jobs' gone

say 'a job of another user, two GPUs of the default type, on two nodes'
chmod 644 "$home/job.py"
as_user srun -N 2 -n 2 --cricket=2 /usr/bin/python3 "$home/job.py" >"$home/user.log" 2>&1 || die 'the job of another user'
[ "$(grep -c "^GPUs 2 127.0.0.1:${port[5]} 0,1" "$home/user.log")" = 2 ] || die 'not two GPUs on each of two nodes'
await 60 'the end of that job' gone

say 'a user cannot take the licences from a job that waits'
held=$(as_user sbatch --parsable --hold --cricket=1 -o /dev/null --wrap true) || die 'a held job'
! as_user scontrol update JobId="$held" Licenses= >"$home/modify.log" 2>&1 || die 'the licences could be changed'
grep -qi denied "$home/modify.log" || die "scontrol: $(cat "$home/modify.log")"
scontrol show job "$held" | grep -q 'Licenses=cricket_gpu:1' || die 'the licences are not those of the option'
scancel "$held"

say 'what a batch script runs has the GPUs too; a used token admits no further program'
cat >"$home/batch.sh" <<EOF
#!/bin/sh
echo "\$CRICKET_TOKEN" >$home/old.token
srun -n 1 /usr/bin/python3 $home/job.py && /usr/bin/python3 $home/job.py
EOF
sbatch -W -n 1 --cricket=1 -o "$home/batch.log" "$home/batch.sh" >/dev/null || die 'the batch job'
[ "$(grep -c '^GPUs 1' "$home/batch.log")" = 2 ] || die 'not two programs of the batch job'
await 60 'the end of the batch job' gone
! CRICKET_TOKEN=$(cat "$home/old.token") REMOTE_GPU_ADDRESS=127.0.0.1:${port[5]} LD_PRELOAD=$top/cpu/cricket-client.so \
	/usr/bin/python3 "$home/job.py" >"$home/old.log" 2>&1 || die 'the token of a job that has ended is admitted'
grep -qi 'token' "$home/old.log" || die "the program with the old token: $(cat "$home/old.log")"

say 'wrong requests are refused with a reason'
refused() {
	local message=$1
	shift
	! timeout 60 srun "$@" true >"$home/refused.log" 2>&1 || die "accepted: srun $*"
	grep -q -- "$message" "$home/refused.log" || die "srun $*: $(cat "$home/refused.log")"
}
refused 'give a number of GPUs' --cricket=none
refused 'give 1 to 31 letters' --cricket=1 --cricket-type=a:b
refused 'without --cricket=N' --cricket-type=h200
refused 'come from --cricket=N' -L cricket_h200:1
refused 'Invalid license' --cricket=1 --cricket-type=nothing

say 'a reservation that a crashed node has left is removed'
printf 'server=127.0.0.1:%s\ntype=h200\ngpus=3\ntoken=x\nname=root@slurm\nstart=1\n' "${port[4]}" >"$home/cricket/jobs/999999"
srun -n 1 --cricket=2 --cricket-type=h200 /usr/bin/python3 "$home/job.py" >"$home/crashed.log" 2>&1 || die 'the job after a crash'
await 60 'the end of that job' gone
all_idle || die 'a node has been drained'
say 'ok'
