#!/usr/bin/env bash
# tests/systems/kubernetes.sh - a cluster of one node on this machine: the manifests of docker/kubernetes/emulated, the device
# plugin, and jobs that request cricket/gpu. It must be root. The cluster has its own processes, mounts and network; afterwards
# nothing is left of it but what KEEP=1 keeps, a folder in /var/tmp.
#
# The cluster's programs are what tools/kubernetes.sh has built and unpacked into build/kubernetes, or in the folder $KUBERNETES.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

say() { printf 'kubernetes.sh: %s\n' "$*"; }
[ "$(id -u)" -eq 0 ] || skip "only root can start a kubelet"
programs=${KUBERNETES:-$top/build/kubernetes}
for program in kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl; do
	[ -x "$programs/$program" ] || skip "no $programs/$program: tools/kubernetes.sh builds it, in 10 minutes or more"
done
for program in runc iptables; do
	command -v $program >/dev/null || skip "no $program (tools/deps.sh --kubernetes)"
done
/usr/bin/python3 -c 'import grpc' 2>/dev/null || skip "no python3-grpcio (tools/deps.sh --kubernetes)"
PATH=$programs:$programs/root/usr/bin:$PATH

# --- outside: what kubelet changes on the whole machine is put back

settings=(vm.overcommit_memory kernel.panic kernel.panic_on_oops)
folders=(/var/lib/kubelet /var/log/pods /var/log/containers)
in_namespaces() {
	local status=0 saved made=() folder home
	for folder in "${folders[@]}"; do
		[ -e "$folder" ] || made+=("$folder")
	done
	mapfile -t saved < <(sysctl "${settings[@]}")
	home=$(mktemp -d /var/tmp/cricket-kubernetes.XXXXXX)
	mkdir -p "${folders[@]}"
	CLUSTER_HOME=$home unshare --net --mount --pid --fork --kill-child --mount-proc "$0" "$@" || status=$?
	sysctl -q "${saved[@]// = /=}"
	[ ${#made[@]} -eq 0 ] || rmdir "${made[@]}"
	find /sys/fs/cgroup -depth -type d -path '*/k8s.io/*' -exec rmdir {} + 2>/dev/null || true
	find /sys/fs/cgroup -depth -type d -name k8s.io -exec rmdir {} + 2>/dev/null || true
	[ -n "${KEEP:-}" ] && say "kept: $home" || rm -rf --one-file-system "$home"
	exit $status
}
[ -n "${CLUSTER_HOME:-}" ] || in_namespaces "$@"

# --- inside

home=$CLUSTER_HOME
for folder in "${folders[@]}"; do
	mkdir -p "$home$folder"
	mount --bind "$home$folder" "$folder"
done
ip link set lo up
# The node's address; kubelet wants a default route.
ip link add node0 type bridge
ip address add 10.215.0.1/24 dev node0
ip link set node0 up
ip route add default dev node0
daemons=()
leave_cluster() {
	local status=$? pid
	trap - EXIT
	kubectl delete --all --all-namespaces --grace-period=0 --force --wait=false daemonset,job,pod >"$home/leave.log" 2>&1 || true
	for pid in "${daemons[@]}"; do kill "$pid" 2>/dev/null || true; done
	for pid in "${daemons[@]}"; do wait "$pid" 2>/dev/null || true; done # all others end with this process
	exit $status
}
trap leave_cluster EXIT
fail() {
	kubectl get pods -A -o wide >&2 || true
	kubectl describe pods -A 2>/dev/null | tail -n 60 >&2 || true
	tail -n 8 "$home"/*.log >&2
	die "$*"
}
start() {
	local name=$1
	shift
	"$@" >"$home/$name.log" 2>&1 &
	daemons+=($!)
}
# await SECONDS WHAT COMMAND...: until the command is true.
await() {
	local end=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || fail "waited in vain: $what"
		sleep 0.2
	done
}

# --- images: the files with what ldd finds, as a docker archive

# image NAME FOLDER ENTRYPOINT: imports the folder.
image() {
	/usr/bin/python3 - "$1" "$2" "$3" "$home/image.tar" <<'END'
import hashlib, io, json, sys, tarfile
name, folder, entry, out = sys.argv[1:]
layer = io.BytesIO()
with tarfile.open(fileobj=layer, mode="w") as tar:
    tar.add(folder, ".")
layer = layer.getvalue()
config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Entrypoint": [entry], "Env": ["PATH=/usr/bin:/bin"]},
                     "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}).encode()
manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
with tarfile.open(out, "w") as tar:
    for file, data in (("config.json", config), ("layer.tar", layer), ("manifest.json", manifest)):
        info = tarfile.TarInfo(file)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
END
	ctr -a "$home/containerd.sock" -n k8s.io images import "$home/image.tar" >>"$home/images.log" 2>&1 || fail "image $1"
	rm "$home/image.tar"
}
# libraries FOLDER FILE...: what the files load, into the folder.
libraries() {
	local folder=$1
	shift
	mkdir -p "$folder"/{tmp,proc,dev,sys,etc,bin,run}
	ldd "$@" 2>/dev/null | grep -oE '/[^ :]+\.so[^ :]*' | sort -u | grep -v "^$home\|^$top" | xargs cp -L --parents -t "$folder"
}

# --- the cluster

configure() {
	mkdir -p "$home"/{cni,etcd}
	openssl genrsa -out "$home/key" 2048 2>/dev/null
	echo 'secret,admin,admin,system:masters' >"$home/tokens"
	cat >"$home/containerd.toml" <<END
version = 2
root = "$home/containerd"
state = "$home/run"
[grpc]
  address = "$home/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/pause:1"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "$programs/root/usr/lib/cni"
  conf_dir = "$home/cni"
END
	cat >"$home/cni/bridge.conflist" <<END
{"cniVersion": "0.4.0", "name": "cricket-test", "plugins": [{"type": "bridge", "bridge": "cricket-br0", "isGateway": true,
 "ipam": {"type": "host-local", "dataDir": "$home/ipam", "ranges": [[{"subnet": "10.213.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
	cat >"$home/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
address: 127.0.0.1
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
resolvConf: ""
evictionHard: {memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%}
END
	cat >"$home/kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:16443", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
END
	export KUBECONFIG=$home/kubeconfig
}

start_cluster() {
	start etcd etcd --data-dir "$home/etcd" --listen-client-urls http://127.0.0.1:12379 --advertise-client-urls http://127.0.0.1:12379 \
		--listen-peer-urls http://127.0.0.1:12380 --initial-advertise-peer-urls http://127.0.0.1:12380 --initial-cluster default=http://127.0.0.1:12380
	start containerd containerd -c "$home/containerd.toml"
	start apiserver kube-apiserver --etcd-servers http://127.0.0.1:12379 --bind-address 127.0.0.1 --advertise-address 127.0.0.1 --secure-port 16443 \
		--insecure-port 0 --cert-dir "$home/certificates" --token-auth-file "$home/tokens" --authorization-mode AlwaysAllow \
		--service-account-key-file "$home/key" --service-account-signing-key-file "$home/key" --service-account-issuer https://test \
		--disable-admission-plugins ServiceAccount --service-cluster-ip-range 10.214.0.0/24
	await 90 'the API server' kubectl get --raw /readyz
	start manager kube-controller-manager --kubeconfig "$KUBECONFIG" --service-account-private-key-file "$home/key" --leader-elect=false \
		--port 0 --secure-port 0
	start scheduler kube-scheduler --kubeconfig "$KUBECONFIG" --leader-elect=false --port 0 --secure-port 0
	await 60 'containerd' ctr -a "$home/containerd.sock" version
	mkdir "$home/pause"
	printf '#include <unistd.h>\nint main(void) { for (;;) pause(); }\n' | gcc -static -x c - -o "$home/pause/pause"
	image docker.io/library/pause:1 "$home/pause" /pause
	start kubelet kubelet --config "$home/kubelet.yaml" --kubeconfig "$KUBECONFIG" --container-runtime remote \
		--container-runtime-endpoint "unix://$home/containerd.sock" --hostname-override node1 --node-ip 10.215.0.1 --cert-dir "$home/certificates"
	start proxy kube-proxy --kubeconfig "$KUBECONFIG" --hostname-override node1 --proxy-mode iptables --cluster-cidr 10.213.0.0/24 \
		--conntrack-max-per-core 0 --conntrack-tcp-timeout-established 0 --conntrack-tcp-timeout-close-wait 0 \
		--healthz-bind-address 127.0.0.1:10256 --metrics-bind-address 127.0.0.1:10249
	await 120 'a node that is ready' node_is Ready
}
node_is() { kubectl get node node1 --no-headers | grep -q " $1 "; }

configure
start_cluster
say "Kubernetes $(kubelet --version | cut -d' ' -f2), $(containerd --version | cut -d' ' -f3): the node is ready after $SECONDS s"

# --- servers: the manifests, with two places, a token, and a key for TLS

DESTDIR=$home/server "$top/tools/install.sh" server /opt/cricket >/dev/null
libraries "$home/server" "$top/cpu/cricket-rpc-server" "$top/cpu/libcuda-emu.so" "$top/cpu/cricket"
for release in 0.2.0 0.2.1; do
	image docker.io/library/cricket-server:$release "$home/server" /opt/cricket/bin/cricket-rpc-server
done
mkdir "$home/site"
"$top/cpu/cricket-rpc-server" --new-token team >"$home/new"
token=$(sed -n 's/^token: *//p' "$home/new")
sed -n 's/^line: *//p' "$home/new" >"$home/site/tokens"
pin=$("$top/cpu/cricket-rpc-server" --new-cert "$home/site" | sed -n 's/^clients: CRICKET_TLS_PIN=//p')
cp -r "$top/docker/kubernetes" "$home/manifests"
cat >"$home/site/kustomization.yaml" <<'END'
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: cricket
resources: [../manifests/emulated]
patches:
  - target: {kind: DaemonSet, name: cricket-server}
    patch: |-
      - {op: add, path: /spec/template/spec/containers/0/args/-, value: --max-sessions}
      - {op: add, path: /spec/template/spec/containers/0/args/-, value: "2"}
      - {op: add, path: /spec/template/spec/containers/0/args/-, value: --drain}
      - {op: add, path: /spec/template/spec/containers/0/args/-, value: 20s}
secretGenerator:
  - name: cricket-tokens
    behavior: replace
    files: [list=tokens]
    options: {disableNameSuffixHash: true}
  - name: cricket-tls
    type: kubernetes.io/tls
    files: [tls.crt=cert.pem, tls.key=key.pem]
    options: {disableNameSuffixHash: true}
END
# apply FOLDER: a kustomization. The kubectl of 1.20 has an older kustomize.
apply() {
	PATH=${PATH//"$programs:"/} kubectl kustomize "$1" >"$home/all.yaml"
	kubectl apply -f "$home/all.yaml" >"$home/apply.log" 2>&1 || fail "apply: $(cat "$home/apply.log")"
}
apply "$home/site"
server_ready() { [ "$(kubectl -n cricket get daemonset cricket-server -o 'jsonpath={.status.numberReady}')" = 1 ]; }
await 120 'the server of the DaemonSet' server_ready
service=$(kubectl -n cricket get service cricket-server -o 'jsonpath={.spec.clusterIP}')
address=tcp://$service:9909
CRICKET_TOKEN=$token CRICKET_TLS_PIN=$pin await 60 "the server at its Service's address" "$top/cpu/cricket" check -s "$address"
refused() { ! CRICKET_TOKEN=$1 "$top/cpu/cricket" check -s "$address" >"$home/refused.log" 2>&1; }
CRICKET_TLS=off refused "$token" || fail 'a client without TLS is admitted'
CRICKET_TLS_PIN=sha256:$(printf '0%.0s' {1..64}) refused "$token" || fail 'a client trusts another key'
CRICKET_TLS_PIN=$pin refused other || fail 'another token is admitted'
[ "$(kubectl -n cricket get networkpolicy -o name)" = networkpolicy.networking.k8s.io/cricket-server ] || fail 'no NetworkPolicy'
say "a server as a DaemonSet, with tokens and TLS key from Secrets, behind its Service: $address; the NetworkPolicy is accepted"

# --- a program in the way of docker/kubernetes/client

DESTDIR=$home/client "$top/tools/install.sh" client /opt/cricket >/dev/null
mkdir "$home/client/opt/cricket/apps"
cp "$top/tests/test_apps/bin/vector_add" "$home/client/opt/cricket/apps/"
libraries "$home/client" /bin/cp "$home/client/opt/cricket/apps/vector_add" "$top/cpu/cricket-client.so" "$top/cpu/cricket"
cp /bin/cp "$home/client/bin/"
image docker.io/library/cricket-client:0.2.0 "$home/client" /opt/cricket/bin/cricket
kubectl create secret generic cricket-client --from-literal=token="$token" --from-literal=pin="$pin" >/dev/null
kubectl label namespace default cricket/clients=true >/dev/null
mkdir "$home/example"
# This cluster has no DNS.
cat >"$home/example/kustomization.yaml" <<END
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../manifests/client]
patches:
  - target: {kind: Job, name: cricket-example}
    patch: |-
      - {op: add, path: /spec/template/spec/hostAliases, value: [{ip: "$service", hostnames: [cricket-server.cricket]}]}
END
apply "$home/example"
succeeded() { [ "$(kubectl get job "$1" -o 'jsonpath={.status.succeeded}')" = 1 ]; }
await 120 'the example' succeeded cricket-example
grep -hq '50000 elements, 0 wrong' /var/log/pods/default_cricket-example-*/program/0.log || fail 'the example has printed something else'
say "the example's Job has run its program, with token and pin from a Secret, after $SECONDS s"
kubectl delete job cricket-example >/dev/null

# --- the device plugin

export CRICKET_TLS_PIN=$pin
XDG_CONFIG_HOME=$home/config CRICKET_TOKEN=$token start plugin /usr/bin/python3 "$top/kubernetes/cricket-device-plugin" --server "$address" \
	--interval 0.5 --command "$top/cpu/cricket"
allocatable() { [ "$(kubectl get node node1 -o 'jsonpath={.status.allocatable.cricket/gpu}')" = "$1" ]; }
await 60 'two places of the node' allocatable 2

mkdir "$home/program"
cp "$top"/tests/test_apps/bin/{vector_add,endless} "$home/program/"
libraries "$home/program" "$home"/program/{vector_add,endless} "$top/cpu/cricket-client.so" "$top/cpu/cricket"
image docker.io/library/program:1 "$home/program" /vector_add
# job NAME COMMAND...: that requests a place.
job() {
	local name=$1
	shift
	printf '{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "%s"}, "spec": {"template": {"spec": {"restartPolicy": "Never",
 "automountServiceAccountToken": false, "containers": [{"name": "c", "image": "program:1", "imagePullPolicy": "Never", "command": [%s],
 "resources": {"limits": {"cricket/gpu": 1}}}]}}}}' "$name" "$(printf '"%s", ' "$@" | sed 's/, $//')" | kubectl apply -f - >/dev/null
}
phase() { [ "$(kubectl get pods -l "job-name=$1" -o 'jsonpath={.items[0].status.phase}')" = "$2" ]; }
sessions() {
	[ "$(CRICKET_TOKEN=$token "$top/cpu/cricket" servers --json -s "$address" | /usr/bin/python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["sessions"])')" = "$1" ]
}
job add /vector_add
await 120 'a job with a place' phase add Succeeded
grep -hq '50000 elements, 0 wrong' /var/log/pods/default_add-*/c/0.log || fail "the job has printed: $(cat /var/log/pods/default_add-*/c/0.log)"
say "a job that requests cricket/gpu: 1 has run a CUDA program unchanged, after $SECONDS s"
kubectl delete job add >/dev/null

say 'two jobs take both places, and a third waits'
job one /endless sync
job two /endless sync
await 60 'job one' phase one Running
await 60 'job two' phase two Running
await 60 'two sessions' sessions 2
job three /vector_add
waits() { kubectl get events | grep -q 'Insufficient cricket/gpu'; }
await 60 'job three to wait for a place' waits
phase three Pending || fail 'job three does not wait'

say 'a killed pod frees its session after the time of --keep, and the third runs'
kubectl delete job one --wait=false >/dev/null
kubectl delete pod -l job-name=one --grace-period=0 --force >/dev/null 2>&1 || true
await 240 'job three' succeeded three
await 60 'one session' sessions 1

say 'an upgrade: the running session has the time of --drain, and its Job goes on with the new server'
kubectl -n cricket set image daemonset/cricket-server server=cricket-server:0.2.1 >/dev/null
await 60 'no free place' allocatable 0
phase two Running || fail 'job two has ended at once'
new_server() { server_ready && [ "$(kubectl -n cricket get pods -o 'jsonpath={.items[*].spec.containers[0].image}')" = cricket-server:0.2.1 ]; }
await 120 'the new server' new_server
await 60 'the reason why job two has ended' grep -q 'is lost (the server stops (drain))' /var/log/pods/default_two-*/c/0.log
await 60 'two places of the new server' allocatable 2
runs_again() { kubectl get pods -l job-name=two --no-headers | grep -q " Running "; }
await 120 'a second pod of job two' runs_again
say ok
