#!/usr/bin/env python3
"""bench/mps.py - small programs of one user that share a GPU: in time, and in space through NVIDIA MPS.

    bench/mps.py [--driver cuda|emu] [--clients N] [--seconds S]

N processes launch small kernels at the same time (bench-load meet): natively with the driver's time slices, natively
with an MPS, through a server, and through a server whose policy has share = "mps", also with a part of the
multiprocessors for each. Then the server's rules are tried: GPU time in the status, a session that is parked, and a fault
of one session beside another of its identity and one of another identity. The table comes last. Takes about a minute.
"""
import argparse
import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from suspend import HOLD, ROOT, Server

CONTROL = "nvidia-cuda-mps-control"
USER = pwd.getpwuid(os.getuid()).pw_name
POLICY = 'identities: ( {{ user = "{user}"; share = "mps"; {more} }} );'

# Answers each line: "use" by the result of a copy, "fault" by that of a kernel that writes to address 8.
PROGRAM = r"""
import ctypes, sys
c = ctypes.CDLL("libcuda.so.1")
def ok(err):
    assert err == 0, err
context, at = ctypes.c_void_p(), ctypes.c_uint64()
ok(c.cuInit(0)); ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)); ok(c.cuCtxSetCurrent(context))
ok(c.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(4096)))
print("ready", flush=True)
for line in sys.stdin:
    if line.strip() == "fault":
        ptx = (b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k()\n{\n.reg .u64 %r;\nmov.u64 %r, 8;\n"
               b"st.global.u64 [%r], %r;\nret;\n}\n")
        module, k = ctypes.c_void_p(), ctypes.c_void_p()
        ok(c.cuModuleLoadData(ctypes.byref(module), ptx)); ok(c.cuModuleGetFunction(ctypes.byref(k), module, b"k"))
        ok(c.cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, None, None, None))
    print(c.cuMemsetD8_v2(at, 1, ctypes.c_size_t(4096)) or c.cuCtxSynchronize(), flush=True)
"""

# Has a kernel that runs for seconds.
SPIN = PROGRAM.split("print(")[0] + r"""
ptx = (b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u32 n)\n{\n.reg .pred %q;\n.reg .b32 %r<2>;\n"
       b"ld.param.u32 %r1, [n];\nA: sub.u32 %r1, %r1, 1;\nsetp.ne.u32 %q, %r1, 0;\n@%q bra A;\nret;\n}\n")
module, k, n = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint(1 << 31)
ok(c.cuModuleLoadData(ctypes.byref(module), ptx)); ok(c.cuModuleGetFunction(ctypes.byref(k), module, b"k"))
args = (ctypes.c_void_p * 1)(ctypes.addressof(n))
ok(c.cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, None, args, None))
print("ready", flush=True)
sys.stdin.read()
"""


class Bench:
    def __init__(self, options):
        self.options = options
        self.home = tempfile.TemporaryDirectory(prefix="mps")
        self.rows = []
        self.native = dict(os.environ)
        if options.driver == "emu":
            os.symlink(ROOT / "cpu" / "libcuda-emu.so", f"{self.home.name}/libcuda.so.1")
            self.native["LD_LIBRARY_PATH"] = self.home.name

    def remote(self, address):
        return dict(os.environ, REMOTE_GPU_ADDRESS=address, LD_PRELOAD=str(ROOT / "cpu/cricket-client.so"))

    def command(self, env, *words):
        hide = "REMOTE_GPU_ADDRESS" in env and self.options.driver != "emu"
        return [*([str(ROOT / "bench/no-gpu.sh")] if hide else []), *map(str, words)]

    def measure(self, name, env):
        """The steps a second of all clients together, and the slowest client's part of the fastest one's."""
        o = self.options
        command = self.command(env, "timeout", 20 + o.seconds, sys.executable, ROOT / "bench/many.py", "--clients", o.clients,
                               "--seconds", o.seconds, "--work", o.work)
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"{name}: failed\n{done.stdout}{done.stderr}", flush=True)
            self.rows.append((name, None, None))
            return
        values = json.loads(done.stdout.splitlines()[-1])
        self.rows.append((name, values[f"many_{o.clients}"]["value"], values[f"many_{o.clients}_fair"]["value"]))
        print(f"{name}: {self.rows[-1][1]:.0f} steps/s", flush=True)

    def native_mps(self):
        if not shutil.which(CONTROL):
            print(f"{CONTROL} is not on PATH", flush=True)
            self.rows.append(("native, MPS", None, None))
            return
        env = dict(self.native, CUDA_MPS_PIPE_DIRECTORY=self.home.name, CUDA_MPS_LOG_DIRECTORY=self.home.name)
        os.chmod(self.home.name, 0o700)
        with subprocess.Popen([CONTROL, "-f"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as daemon:
            for _ in range(100):
                if os.path.exists(f"{self.home.name}/control"):
                    break
                time.sleep(0.1)
            self.measure("native, MPS", env)
            subprocess.run([CONTROL], env=env, input="quit\n", text=True, capture_output=True, timeout=30, check=False)
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()

    def server(self, more=None, *options):
        """A server, with share = "mps" and MORE in its policy unless that is None."""
        if more is not None:
            policy = f"{self.home.name}/policy"
            with open(policy, "w", encoding="utf-8") as file:
                file.write(POLICY.format(user=USER, more=more))
            options += ("--policy", policy)
        return Server(self.options.driver, *options)

    def measure_server(self, name, more=None, *options):
        server = self.server(more, *options)
        self.measure(name, self.remote(f"shm:{server.home}/s"))
        for line in processes_of_mps():
            print("  ", line, flush=True)
        if "--gpu-time" in options:
            time.sleep(2)       # it is counted once a second
            print(f"   GPU time of the identity in the status: {gpu_seconds(server):.1f} s", flush=True)
        server.end()

    def start(self, address, code, *words):
        env = self.remote(address)
        process = subprocess.Popen(self.command(env, sys.executable, "-c", code, *words), env=env, text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(process.communicate()[1])
        return process


def ask(process, word):
    print(word, file=process.stdin, flush=True)
    return process.stdout.readline().strip()


def processes_of_mps():
    """Name, id, state, parent and session of each."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = stat.read_text(encoding="utf-8", errors="replace").split(" (", 1)
        except OSError:
            continue        # it has just ended
        name, fields = rest.rsplit(") ", 1)
        state, parent, _, session = fields.split()[:4]
        if name.startswith("nvidia-cuda-mps") and state != "Z":
            found.append(f"{name} {pid} {state}, parent {parent}, session {session}")
    return found


def gpu_seconds(server):
    return sum(one.get("gpu_time", 0) for one in server.ask(command="status")[0].get("identities", []))


def try_rules(bench, server):
    """The rules for sessions under MPS, checked one after the other."""
    unix, tcp = f"shm:{server.home}/s", f"127.0.0.1:{server.port}"
    holder = bench.start(unix, HOLD, "0.5")
    name = server.ask(command="sessions")[0]["sessions"][0]["session"]
    for command in ("suspend", "park", "resume"):
        reply, seconds = server.ask(command=command, session=name)
        print(f"{command}: {reply.get('error') or f'{seconds * 1e3:.0f} ms'}", flush=True)
    print("after it:", ask(holder, ""), flush=True)
    holder.communicate()
    one, two, other = bench.start(unix, PROGRAM), bench.start(unix, PROGRAM), bench.start(tcp, PROGRAM)
    fault, end = ask(one, "fault"), time.monotonic() + 5
    while (beside := ask(two, "use")) == "0" and time.monotonic() < end:
        time.sleep(0.1)     # the fault is on its way
    print("a fault: its session", fault, "- another of its identity", beside, "- another identity", ask(other, "use"), flush=True)
    for process in (one, two, other):
        process.communicate()
    again, busy = bench.start(unix, PROGRAM), bench.start(unix, SPIN, "spin")
    print("the next session after it:", ask(again, "use"), flush=True)
    for session in server.ask(command="sessions")[0]["sessions"]:
        if session["client_pid"] == busy.pid:
            os.kill(session["pid"], signal.SIGKILL)
    busy.kill()
    busy.communicate()
    print("another session after the kill of one with running work:", ask(again, "use"), flush=True)
    again.communicate()


def give_up(*_):
    raise RuntimeError("it took too long")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--driver", default="cuda")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--work", type=int, default=2000, help="what a kernel counts to")
    bench = Bench(parser.parse_args())
    signal.signal(signal.SIGALRM, give_up)
    bench.measure("native, time slices", bench.native)
    bench.native_mps()
    bench.measure_server("Cricket, time slices")
    bench.measure_server('Cricket, share = "mps"', "", "--gpu-time")
    bench.measure_server('Cricket, share = "mps", sm = "25%"', 'sm = "25%";')
    server = bench.server("")
    signal.alarm(40)
    try:
        try_rules(bench, server)
    except (RuntimeError, OSError, KeyError, IndexError, ValueError) as error:
        print(f"rules: {error}", flush=True)
    signal.alarm(0)
    print("".join(line for line in open(server.home / "log", encoding="utf-8") if "MPS" in line), flush=True)
    server.end()
    print("processes of MPS that are left:", len(processes_of_mps()), flush=True)
    print(f"\n{bench.options.clients} programs of one user        steps/s  of time slices  slowest of fastest")
    base = bench.rows[0][1]
    for name, rate, fair in bench.rows:
        print(f"{name:34} {rate:8.0f} {rate / base:13.2f}x {fair:16.2f}" if rate and base else f"{name:34}   failed")
    bench.home.cleanup()


if __name__ == "__main__":
    sys.exit(main())
