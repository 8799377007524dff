#!/usr/bin/env python3
"""bench/other_gpu.py - sessions that return on another GPU: what the driver says of itself then, and a training that alternates.

    bench/other_gpu.py [--driver emu|cuda] [--moves N] [--servers]      with at least two GPUs of one model; on a real one as root

First without a server: a process is checkpointed, and restored with GPUs 0 and 1 exchanged. A row says what the driver
and NVML tell in it before and after: the UUID and PCI address of its device 0, and the MiB that NVML counts for it on each GPU.
Then a program trains on a server, and its session goes N times (20) from one GPU to the other. A row for each: the
times of both commands with the driver's part, and the worker's MiB on each GPU. At the end the losses are compared with those of
the same program without a server, bit for bit.

With --servers there are two servers, with a GPU each (CUDA_VISIBLE_DEVICES), and the session moves from one to the other
(cricket move), for which CRIU must work. A row has the seconds of the move and those until the next loss.
"""
import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

from survive import Program, compare, criu, natively
from suspend import ROOT, Server

# Lines of its own view of device 0, whenever it gets a line.
LOOK = """
import ctypes, os, sys
c = ctypes.CDLL("libcuda.so.1")
def ok(err):
    assert err == 0, err
context, at, uuid, bus = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.create_string_buffer(16), ctypes.create_string_buffer(32)
ok(c.cuInit(0)); ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)); ok(c.cuCtxSetCurrent(context))
ok(c.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(64 << 20)))
for line in sys.stdin:
    ok(c.cuDeviceGetUuid_v2(uuid, 0)); ok(c.cuDeviceGetPCIBusId(bus, 32, 0)); ok(c.cuMemsetD8_v2(at, 1, ctypes.c_size_t(64 << 20)))
    print(uuid.raw.hex(), bus.value.decode(), flush=True)
"""


def row(name, **values):
    print(json.dumps({"name": name, **values}), flush=True)


class Restore(ctypes.Structure):
    """CUcheckpointRestoreArgs."""
    _fields_ = [("pairs", ctypes.c_void_p), ("count", ctypes.c_uint), ("unused", ctypes.c_char * 44), ("more", ctypes.c_uint64)]


class Driver:
    """The driver and NVML of this process, which only moves and counts others."""

    def __init__(self, which):
        self.cuda = ctypes.CDLL(str(ROOT / "cpu" / "libcuda-emu.so") if which == "emu" else "libcuda.so.1")
        self.nvml = self.cuda if which == "emu" else ctypes.CDLL("libnvidia-ml.so.1")
        for err in (self.cuda.cuInit(0), self.nvml.nvmlInit_v2()):
            if err:
                sys.exit(f"the driver does not begin: {err}")
        count = ctypes.c_int()
        self.cuda.cuDeviceGetCount(ctypes.byref(count))
        self.count = count.value
        if self.count < 2:
            sys.exit("other_gpu: needs two GPUs")

    def uuid(self, device):
        room = ctypes.create_string_buffer(16)
        self.cuda.cuDeviceGetUuid_v2(room, device)
        return room.raw

    def memory(self, pid):
        """MiB that NVML counts for a process on each GPU, in CUDA's order."""
        found = []
        for device in range(self.count):
            h = self.uuid(device).hex()
            name = f"GPU-{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"
            board, count, rows = ctypes.c_void_p(), ctypes.c_uint(512), (ctypes.c_ulonglong * (3 * 512))()
            self.nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(board))
            err = self.nvml.nvmlDeviceGetComputeRunningProcesses_v3(board, ctypes.byref(count), rows)
            found.append(None if err else
                         sum(rows[3 * i + 1] >> 20 for i in range(count.value) if rows[3 * i] & 0xffffffff == pid))
        return found

    def step(self, name, pid, arguments=None):
        err = getattr(self.cuda, "cuCheckpointProcess" + name)(pid, arguments)
        if err:
            row("facts", failed=name, error=err)
        return not err

    def exchange(self, pid):
        """Restores the process with GPUs 0 and 1 exchanged."""
        order = [1, 0, *range(2, self.count)]
        pairs = ctypes.create_string_buffer(b"".join(self.uuid(i) + self.uuid(order[i]) for i in range(self.count)))
        return self.step("Restore", pid, ctypes.byref(Restore(ctypes.cast(pairs, ctypes.c_void_p), self.count)))


def facts(driver, env):
    """What the driver tells in a process that has moved."""
    process = subprocess.Popen([sys.executable, "-c", LOOK], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def look(when):
        process.stdin.write("\n")
        process.stdin.flush()
        words = (process.stdout.readline().split() + ["NOTHING", "NOTHING"])[:2]
        row("facts", when=when, uuid=words[0], pci=words[1], mib=driver.memory(process.pid))
    look("before")
    done = driver.step("Lock", process.pid) and driver.step("Checkpoint", process.pid)
    if done and driver.exchange(process.pid) and driver.step("Unlock", process.pid):
        look("after")
    process.kill()
    process.wait()


def alternate(driver, server, program, moves):
    """Moves the only session; false: a command was refused."""
    for turn in range(moves):
        (session,) = server.ask(command="sessions")[0]["sessions"]
        before = driver.memory(session["pid"])
        out, out_s = server.ask(command="suspend", session=session["session"])
        left = driver.memory(session["pid"])
        back, back_s = server.ask(command="resume", session=session["session"], device=str(1 - turn % 2))
        if not out["ok"] or not back["ok"]:
            row("move", refused=(back if out["ok"] else out).get("error"))
            return False
        row("move", to=back["device"], suspend_ms=round(1e3 * out_s), driver_out_ms=out["ms"], resume_ms=round(1e3 * back_s),
            driver_back_ms=back["ms"], before=before, suspended=left, after=driver.memory(session["pid"]),
            next_loss_ms=round(1e3 * program.go_on(20)))
    return True


def session_of(server):
    """The only session, or None."""
    sessions = server.ask(command="sessions")[0]["sessions"]
    return sessions[0] if sessions else None


def travel(driver, servers, program, moves, tool, folder):
    """Moves the only session from server to server; false: a move failed."""
    for turn in range(moves):
        here, there = servers[turn % 2], servers[1 - turn % 2]
        session = session_of(here)
        before, begin = driver.memory(session["pid"]), time.monotonic()
        receive = [here.command[0], "--unix", str(there.home / "s"), "--criu", tool, "--ctl", "receive", str(folder)]
        done = subprocess.run([ROOT / "cpu" / "cricket", "move", "-s", f"unix:{here.home}/s", session["session"],
                               f"127.0.0.1:{there.port}", shlex.join(receive)], capture_output=True, text=True)
        if done.returncode != 0:
            row("move", refused=done.stderr.strip())
            return False
        took, arrived = time.monotonic() - begin, session_of(there)
        row("move", to_server=1 - turn % 2, s=round(took, 2), before=before, after=driver.memory(arrived["pid"]),
            next_loss_s=round(program.go_on(20), 3))
    return True


def one_server(driver, options, ends):
    server = Server(options.driver)
    ends.callback(server.end)
    program = Program(options.driver, f"127.0.0.1:{server.port}")
    ends.callback(program.process.kill)
    return program, [server], alternate(driver, server, program, options.moves)


def two_servers(driver, options, ends):
    tool, why = criu()
    if not tool:
        sys.exit(f"other_gpu: {why}")
    servers = []
    for gpu in "01":
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
        servers.append(Server(options.driver, "--criu", tool))
        ends.callback(servers[-1].end)
    del os.environ["CUDA_VISIBLE_DEVICES"]
    program = Program(options.driver, f"127.0.0.1:{servers[0].port}")
    ends.callback(program.process.kill)
    folder = pathlib.Path(ends.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
    return program, servers, travel(driver, servers, program, options.moves, tool, folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", default="cuda")
    parser.add_argument("--moves", type=int, default=20)
    parser.add_argument("--servers", action="store_true")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp())
    env = dict(os.environ)
    if options.driver == "emu":
        (folder / "emu").mkdir()
        (folder / "emu" / "libcuda.so.1").symlink_to(ROOT / "cpu" / "libcuda-emu.so")
        os.environ.update(CRICKET_EMU=f"devices=2,memory=256M,shared,usage={folder}/usage")
        env = dict(os.environ, LD_LIBRARY_PATH=f"{folder / 'emu'}:{os.environ.get('LD_LIBRARY_PATH', '')}")
    try:
        driver = Driver(options.driver)
        if not options.servers:
            facts(driver, env)
        with contextlib.ExitStack() as ends:
            begin = time.monotonic()
            program, servers, done = (two_servers if options.servers else one_server)(driver, options, ends)
            if not done:
                for server in servers:
                    print((server.home / "log").read_text()[-3000:], file=sys.stderr)
            status = program.end()
        row("moves", n=options.moves, s=round(time.monotonic() - begin, 1))
        return compare(program.losses, natively(options.driver, len(program.losses), folder)) or status or not done
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
