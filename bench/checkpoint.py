#!/usr/bin/env python3
"""bench/checkpoint.py - how long a session takes into files and out of them, and how large the files are.

    bench/checkpoint.py [--driver emu|cuda] [--gb N] [--content random|half|zero] [--turns N] [--folder DIR] [--options WORDS] [--changes PERCENT]

Starts a server of its own, with the options WORDS too, and one program that holds N GiB: random bytes, no piece like
another; or the first half of each 128 MiB random and the rest zero; or zeros. Each turn writes the program's session into a
folder in DIR (/var/tmp), and restores it from there. A row has the median time of the command, how much of a checkpoint is
the suspend, and the MiB in files: in all, and of memory.bin. At the end the program says whether its memory is the same.
With --changes, the session goes on after each checkpoint, and is written again when the program has changed PERCENT of its 2 MiB
pieces: rows for the first checkpoint and for the later ones, with the pause as the server and as the program sees it (the longest
read of 8 bytes), the MiB written, and those of device memory. The machine keeps what was written in its page cache; memory.bin bypasses that where the file system can. Needs root and CRIU.
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

# Fills its memory, and compares all of it when it gets a line. A word in each 2 MiB makes them differ; "change N" changes it in each Nth.
# Meanwhile it reads a word again and again: "gap" asks for the longest time that this took since the last such line. "churn N" does the
# same as "change N" once a second, until "rest".
HOLD = """
import ctypes, os, sys, threading, time
c = ctypes.CDLL("libcuda.so.1")
def ok(err):
    assert err == 0, err
size, part = 1 << 27, 1 << 21
used = {"random": size, "half": size // 2, "zero": 0}[sys.argv[2]]
base, context, pieces = bytearray(os.urandom(used) + bytes(size - used)), ctypes.c_void_p(), []
view = (ctypes.c_char * size).from_buffer(base)
changes = {}
def word(i, at):
    return (changes.get((i, at), 0) << 48 | i << 32 | at).to_bytes(8, "little")
def number(i):
    for at in range(0, used, part):
        base[at:at + 8] = word(i, at)
ok(c.cuInit(0)); ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)); ok(c.cuCtxSetCurrent(context))
for i in range(max(1, int(float(sys.argv[1]) * 8))):
    at = ctypes.c_uint64()
    ok(c.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)))
    number(i)
    ok(c.cuMemcpyHtoD_v2(at, view, ctypes.c_size_t(size)))
    pieces.append(at)
back = bytearray(size)
gap = 0
def watch():
    global gap
    ok(c.cuCtxSetCurrent(context))
    read = ctypes.create_string_buffer(8)
    while True:
        begin = time.monotonic()
        ok(c.cuMemcpyDtoH_v2(read, pieces[0], ctypes.c_size_t(8)))
        gap = max(gap, time.monotonic() - begin)
        time.sleep(0.001)
def change(step):
    places = [(i, at) for i in range(len(pieces)) for at in range(0, used, part)]
    for i, at in places[::step]:
        changes[i, at] = changes.get((i, at), 0) + 1
        ok(c.cuMemcpyHtoD_v2(ctypes.c_uint64(pieces[i].value + at), word(i, at), ctypes.c_size_t(8)))
    ok(c.cuCtxSynchronize())
churning = threading.Event()
def churn(step):
    ok(c.cuCtxSetCurrent(context))
    while churning.is_set():
        change(step)
        time.sleep(1)
if len(sys.argv) > 3:
    threading.Thread(target=watch, daemon=True).start()
print("ready", flush=True)
for line in sys.stdin:
    if line.startswith("change"):
        change(int(line.split()[1]))
        gap = 0
        print("changed", flush=True)
        continue
    if line.startswith("gap"):
        print(round(gap * 1000), flush=True)
        gap = 0
        continue
    if line.startswith("churn"):
        churning.set()
        churner = threading.Thread(target=churn, args=[int(line.split()[1])])
        churner.start()
        print("churning", flush=True)
        continue
    if line.startswith("rest"):
        if churning.is_set():
            churning.clear()
            churner.join()
        continue
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
    return subprocess.Popen([*hide, sys.executable, "-c", HOLD, str(options.gb), options.content, *["watch"] * bool(options.changes)], env=env, text=True,
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


def tell(process, line):
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def save(server, process, folder):
    """Writes the session, which goes on: what came of it, with the files of device memory that are new."""
    before = {f.name for f in folder.glob("memory*.bin")}
    (session,) = server.ask(command="sessions")[0]["sessions"]
    reply, seconds = ask(server, command="checkpoint", session=session["session"], directory=str(folder), every=3600)
    memory = sum(f.stat().st_size for f in folder.glob("memory*.bin") if f.name not in before)
    return {"s": round(seconds, 2), "pause_ms": reply.get("pause_ms", 0), "program_ms": int(tell(process, "gap")),
            "written_mib": reply["written"] >> 20, "memory_mib": memory >> 20}


def save_again(server, process, options):
    """Rows of the first checkpoint and of the later ones, between which the program changes its memory."""
    with tempfile.TemporaryDirectory(dir=options.folder) as home:
        rows = []
        for _ in range(1 + options.turns):
            tell(process, f"change {round(100 / options.changes)}")
            rows.append(save(server, process, pathlib.Path(home) / "session"))
    row("first", gb=options.gb, **rows[0])
    row("later", gb=options.gb, changed=f"{options.changes:g}%", **{name: statistics.median(r[name] for r in rows[1:]) for name in rows[0]})


def write_and_restore(server, options):
    times = {"checkpoint": [], "restore": []}
    with tempfile.TemporaryDirectory(dir=options.folder) as home:
        for _ in range(options.turns):
            files = turn(server, pathlib.Path(home) / "session", times)
    for name, columns in times.items():
        seconds, suspended = (statistics.median(column) for column in zip(*columns))
        row(name, gb=options.gb, content=options.content, s=round(seconds, 2), **({} if name == "restore" else {
            "suspend": round(suspended, 2), "files_mib": round(sum(files.values())), "memory_mib": round(files.get("memory.bin", 0))}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", default="cuda")
    parser.add_argument("--gb", type=float, default=2)
    parser.add_argument("--content", choices=("random", "half", "zero"), default="random")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--folder", default="/var/tmp")
    parser.add_argument("--options", default="")
    parser.add_argument("--changes", type=float, default=0)
    options = parser.parse_args()
    path, obstacle = criu()
    if obstacle:
        row("checkpoint", refused=obstacle)
        return 1
    server = Server(options.driver, "--keep", KEEP, "--criu", path, *options.options.split())
    process = program(server, options)
    try:
        assert process.stdout.readline() == "ready\n", (server.home / "log").read_text()
        if options.changes:
            save_again(server, process, options)
        else:
            write_and_restore(server, options)
        words = process.communicate("\n")[0].strip()
    finally:
        process.kill()
        server.end()
    row("result", is_=words or "NONE: the program has ended")
    return 0 if words == "the same memory" else 1


if __name__ == "__main__":
    sys.exit(main())
