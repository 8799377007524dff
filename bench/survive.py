#!/usr/bin/env python3
"""bench/survive.py --driver emu|cuda --cut SECONDS - what bench/survive.sh does; see there."""
import argparse
import contextlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from suspend import ROOT, Server, gpu_memory

sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from breaker import Breaker

KEEP = "10m"        # a checkpoint of much memory takes minutes on a slow disk
LOSSES = 200        # between two steps

# Takes all memory of the GPU, in smaller and smaller pieces, fills it, and says how much it has got.
TAKE = """
import ctypes
c = ctypes.CDLL("libcuda.so.1")
def ok(err):
    assert err == 0, err
context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
ok(c.cuInit(0)); ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)); ok(c.cuCtxSetCurrent(context))
ok(c.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
taken, piece = 0, 1 << 30
while piece >= 1 << 21:
    at = ctypes.c_uint64()
    if c.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(piece)):
        piece //= 2
        continue
    ok(c.cuMemsetD32_v2(at, 1, ctypes.c_size_t(piece // 4)))
    taken += piece
ok(c.cuCtxSynchronize())
print(taken >> 20, "of", total.value >> 20, "MiB")
"""


def say(step, *words):
    print(f"{step:<11}", *words, flush=True)


def criu():
    """The program, or None and the reason why it cannot work here."""
    if os.geteuid() != 0:
        return None, "CRIU needs root"
    brought = subprocess.run([ROOT / "tools" / "criu.sh"], capture_output=True, text=True)
    if brought.returncode != 0:
        return None, (brought.stderr.strip().splitlines() or ["no CRIU"])[-1]
    program = brought.stdout.strip()
    check = subprocess.run([program, "check"], capture_output=True, text=True)
    return (program, None) if check.returncode == 0 else (None, "criu check: " + check.stderr.strip())


def training(driver):
    """The command of the program that trains."""
    if driver != "emu" and importlib.util.find_spec("torch"):
        return [sys.executable, str(ROOT / "bench" / "training.py")]
    return [str(ROOT / "tests" / "test_apps" / "bin" / "training")]


def remotely(driver, address):
    """What stands before a command that uses the server at ADDRESS, and cannot reach a GPU without it."""
    return [*([] if driver == "emu" else [str(ROOT / "bench" / "no-gpu.sh")]), "env", f"REMOTE_GPU_ADDRESS={address}",
            f"CRICKET_RESUME={KEEP}", f"LD_PRELOAD={ROOT}/cpu/cricket-client.so"]


def natively(driver, steps, folder):
    """All losses of a run without a server."""
    path = os.environ.get("LD_LIBRARY_PATH", "")
    if driver == "emu":
        (folder / "libcuda.so.1").symlink_to(ROOT / "cpu" / "libcuda-emu.so")
        path = f"{folder}:{path}"
    return subprocess.run([*training(driver), str(steps)], env=dict(os.environ, LD_LIBRARY_PATH=path), check=True, text=True,
                          stdout=subprocess.PIPE).stdout.splitlines()


class Program:
    """The program that trains, and its losses so far."""

    def __init__(self, driver, address):
        self.process = subprocess.Popen([*remotely(driver, address), *training(driver), "-"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.losses = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.go_on()

    def read(self):
        for line in self.process.stdout:
            self.losses.append(line.strip())

    def go_on(self, more=LOSSES):
        """Waits for more losses; the seconds until the first one."""
        begin, before, first = time.monotonic(), len(self.losses), None
        while len(self.losses) < before + more:
            if self.process.poll() is not None:
                sys.exit(f"the program has ended with {self.process.returncode} after {len(self.losses)} losses")
            if first is None and len(self.losses) > before:
                first = time.monotonic() - begin
            time.sleep(0.001)
        return first or time.monotonic() - begin

    def end(self):
        self.process.stdin.close()
        self.reader.join()
        return self.process.wait()


def emulated_memory(pid):
    """MiB that a process has of the emulated GPU, from the table that its processes share (emu/core/usage.c)."""
    words = memoryview(pathlib.Path(os.environ["CRICKET_EMU"].split("usage=")[1]).read_bytes()).cast("Q")
    return sum(sum(words[at + 1:at + 9]) for at in range(0, len(words) - 8, 9) if words[at] >> 32 == pid) >> 20


class Refused(Exception):
    """A command to the server has failed."""


class Demonstration:
    """Servers, proxy and program, which end with ENDS (an ExitStack), and the steps."""

    def __init__(self, ends, driver, cut, folder):
        self.ends = ends
        self.driver, self.seconds, self.folder = driver, cut, folder
        self.criu, self.obstacle = criu()
        self.server = self.begin_server()
        self.proxy = Breaker(self.server.port)
        self.ends.callback(self.proxy.stop)
        self.where = folder / "address"
        self.where.write_text(self.proxy.address + "\n")
        self.program = Program(driver, f"file:{self.where}")
        self.ends.callback(self.program.process.kill)

    def begin_server(self):
        server = Server(self.driver, "--keep", KEEP, "--criu", self.criu or "criu")
        self.ends.callback(server.end)
        return server

    def ctl(self, *words):
        """A command to the server, as one types it; the seconds that it took."""
        print("$ cricket-rpc-server --ctl", *words, flush=True)
        begin = time.monotonic()
        done = subprocess.run([*self.server.command, "--ctl", *map(str, words)], env=self.server.env,
                              capture_output=True, text=True)
        seconds = time.monotonic() - begin
        print(done.stdout + done.stderr, end="", flush=True)
        if done.returncode != 0:
            print((self.server.home / "log").read_text()[-3000:], file=sys.stderr)
            raise Refused(words[0])
        return seconds

    def session(self):
        """Name and process id of the only session."""
        (session,) = self.server.ask(command="sessions")[0]["sessions"]
        return session["session"], session["pid"]

    def gpu_memory(self):
        """MiB that the session's worker has on the GPU."""
        pid = self.session()[1]
        return emulated_memory(pid) if self.driver == "emu" else gpu_memory(pid)[0]

    def cut(self):
        self.proxy.dark()
        before = len(self.program.losses)
        time.sleep(self.seconds)
        waited = len(self.program.losses)
        self.proxy.light()
        say("cut", f"{self.seconds:g} s, at loss {before}; {waited - before} losses meanwhile;",
            f"the next one {self.program.go_on():.2f} s after the end of the cut")

    def suspend(self):
        before, name = self.gpu_memory(), self.session()[0]
        out = self.ctl("suspend", name)
        left, losses = self.gpu_memory(), len(self.program.losses)
        taken = subprocess.run([*remotely(self.driver, f"127.0.0.1:{self.server.port}"), sys.executable, "-c", TAKE],
                               check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
        while len(self.server.ask(command="sessions")[0]["sessions"]) > 1:     # that of the other program ends
            time.sleep(0.01)
        back = self.ctl("resume", name)
        say("suspend", f"{1e3 * out:.0f} ms out, from {before} to {left} MiB on the GPU, at loss {losses}; another program",
            f"took {taken}; {1e3 * back:.0f} ms back, the next loss {1e3 * self.program.go_on():.0f} ms later")

    def upgrade(self):
        before = len(self.program.losses)
        seconds = self.ctl("upgrade")
        say("upgrade", f"{1e3 * seconds:.0f} ms, {len(self.program.losses) - before} losses meanwhile")
        self.program.go_on()

    def checkpoint(self):
        if self.obstacle:
            say("checkpoint", "left out:", self.obstacle)
            return
        files = self.folder / "session"
        out = self.ctl("checkpoint", self.session()[0], files)
        size, losses = sum(f.stat().st_size for f in files.rglob("*") if f.is_file()), len(self.program.losses)
        self.server.stop()
        self.server = self.begin_server()
        back = self.ctl("restore", files)
        self.where.write_text(f"127.0.0.1:{self.server.port}\n")
        say("checkpoint", f"{out:.1f} s, {size / 2**20:.1f} MiB in files, at loss {losses}; first server ended; restored by",
            f"another one in {back:.1f} s, the next loss {self.program.go_on():.2f} s later")

    def show(self):
        """All steps; the status. After a command that has failed the session goes on, unless it is in files."""
        status = 0
        for step in (self.cut, self.suspend, self.upgrade, self.checkpoint):
            try:
                step()
            except Refused as command:
                say(step.__name__, f"FAILED: {command}")
                status = 1
                if str(command) == "restore":
                    return status
        return self.program.end() or status


def compare(losses, native):
    print("losses:", *(f"{i}: {float.fromhex(losses[i]):.6g}" for i in range(0, len(losses), max(1, len(losses) // 8))))
    if losses != native:
        first = next((i for i, pair in enumerate(zip(losses, native)) if pair[0] != pair[1]), "the end")
        print(f"OTHER LOSSES, from {first} on: {len(losses)} here, {len(native)} natively")
        return 1
    print(f"the same {len(losses)} losses as without a server, bit for bit")
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", default="cuda")
    parser.add_argument("--cut", type=float, default=20)
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp())
    if options.driver == "emu":     # one GPU for all, and a small one
        os.environ.update(CRICKET_EMU=f"memory=256M,shared,usage={folder}/usage")
    say("program", pathlib.Path(training(options.driver)[-1]).name,
        "on the emulated GPU" if options.driver == "emu" else "on the GPU")
    try:
        with contextlib.ExitStack() as ends:
            shown = Demonstration(ends, options.driver, options.cut, folder)
            status = shown.show()
        losses = shown.program.losses
        return compare(losses, natively(options.driver, len(losses), folder)) or status
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
