#!/usr/bin/env python3
"""bench/checkpoint.py - how long a session takes into files and out of them, and how large the files are.

    bench/checkpoint.py [--driver emu|cuda] [--gb N] [--content random|half|zero] [--turns N] [--folder DIR] [--options WORDS]

Starts a server of its own, with the options WORDS too, and one program that holds N GiB: random bytes, no piece like
another; or the first half of each 128 MiB random and the rest zero; or zeros. Each turn writes the program's session into a
folder in DIR (/var/tmp), and restores it from there. A row has the median time of the command, how much of a checkpoint is
the suspend, and the MiB in files: in all, and of memory.bin. At the end the program says whether its memory is the same.
The machine keeps what was written in its page cache; memory.bin bypasses that where the file system can. Needs root and CRIU.
"""
import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from suspend import ROOT, Server, row
from survive import KEEP, criu

# Fills its memory, and compares all of it when it gets a line. A word in each 2 MiB makes them differ.
HOLD = """
import ctypes, os, sys
c = ctypes.CDLL("libcuda.so.1")
def ok(err):
    assert err == 0, err
size, part = 1 << 27, 1 << 21
used = {"random": size, "half": size // 2, "zero": 0}[sys.argv[2]]
base, context, pieces = bytearray(os.urandom(used) + bytes(size - used)), ctypes.c_void_p(), []
view = (ctypes.c_char * size).from_buffer(base)
def number(i):
    for at in range(0, used, part):
        base[at:at + 8] = (i << 32 | at).to_bytes(8, "little")
ok(c.cuInit(0)); ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)); ok(c.cuCtxSetCurrent(context))
for i in range(max(1, int(float(sys.argv[1]) * 8))):
    at = ctypes.c_uint64()
    ok(c.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)))
    number(i)
    ok(c.cuMemcpyHtoD_v2(at, view, ctypes.c_size_t(size)))
    pieces.append(at)
back = bytearray(size)
print("ready", flush=True)
for line in sys.stdin:
    good = True
    for i, at in enumerate(pieces):
        number(i)
        ok(c.cuMemcpyDtoH_v2((ctypes.c_char * size).from_buffer(back), at, ctypes.c_size_t(size)))
        good &= back == base
    print("the same memory" if good else "OTHER MEMORY", flush=True)
"""


def program(server, options):
    env = dict(os.environ, LD_PRELOAD=str(ROOT / "cpu" / "cricket-client.so"), REMOTE_GPU_ADDRESS=f"127.0.0.1:{server.port}",
               CRICKET_RESUME=KEEP)
    hide = [] if options.driver == "emu" else [str(ROOT / "bench" / "no-gpu.sh")]
    return subprocess.Popen([*hide, sys.executable, "-c", HOLD, str(options.gb), options.content], env=env, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def ask(server, **request):
    reply, seconds = server.ask(**request)
    if not reply.get("ok"):
        sys.exit(f"{request['command']}: {reply.get('error')}\n" + (server.home / "log").read_text()[-3000:])
    return reply, seconds


def turn(server, folder, times):
    """Writes and restores the session once."""
    (session,) = server.ask(command="sessions")[0]["sessions"]
    begin = time.monotonic()
    suspended = ask(server, command="suspend", session=session["session"])[1]
    ask(server, command="checkpoint", session=session["session"], directory=str(folder))
    times["checkpoint"].append((time.monotonic() - begin, suspended))
    files = {f.name: f.stat().st_size / 2**20 for f in folder.iterdir() if f.is_file()}
    times["restore"].append((ask(server, command="restore", directory=str(folder))[1], 0))
    shutil.rmtree(folder)
    return files


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", default="cuda")
    parser.add_argument("--gb", type=float, default=2)
    parser.add_argument("--content", choices=("random", "half", "zero"), default="random")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--folder", default="/var/tmp")
    parser.add_argument("--options", default="")
    options = parser.parse_args()
    path, obstacle = criu()
    if obstacle:
        row("checkpoint", refused=obstacle)
        return 1
    server = Server(options.driver, "--keep", KEEP, "--criu", path, *options.options.split())
    process = program(server, options)
    times = {"checkpoint": [], "restore": []}
    try:
        assert process.stdout.readline() == "ready\n", (server.home / "log").read_text()
        with tempfile.TemporaryDirectory(dir=options.folder) as home:
            for _ in range(options.turns):
                files = turn(server, pathlib.Path(home) / "session", times)
        words = process.communicate("\n")[0].strip()
    finally:
        process.kill()
        server.end()
    for name, columns in times.items():
        seconds, suspended = (statistics.median(column) for column in zip(*columns))
        row(name, gb=options.gb, content=options.content, s=round(seconds, 2), **({} if name == "restore" else {
            "suspend": round(suspended, 2), "files_mib": round(sum(files.values())), "memory_mib": round(files.get("memory.bin", 0))}))
    row("result", is_=words or "NONE: the program has ended")
    return 0 if words == "the same memory" else 1


if __name__ == "__main__":
    sys.exit(main())
