#!/usr/bin/env python3
"""bench/snapshot.py - how long a program takes to its first answer: from its beginning, and as copies of a snapshot.

    bench/snapshot.py [--driver emu|cuda] [--gb N] [--host-gb N] [--copies N] [--turns N]

Starts a server of its own. The program uploads N GiB of random bytes, keeps some in its own memory (--host-gb), and then answers with
a word of each piece. Rows, each the median of the turns: `cold`, from `cricket run` to the answer; `snapshot`, with the MiB of the
program and of its session; `copy`, from `cricket run --from` to the answer, with the page cache warm; `copies`, several at a time, to
the last answer. Each answer is compared with the first one. Needs root and CRIU.
"""
import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from suspend import ROOT, Server, row
from survive import KEEP, criu

CRICKET = str(ROOT / "cpu" / "cricket")
PROGRAM = """
import ctypes, os, pathlib, random, sys
c = ctypes.CDLL("libcuda.so.1")
def ok(err):
    assert err == 0, err
size, context, pieces = 1 << 27, ctypes.c_void_p(), []
ok(c.cuInit(0)); ok(c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)); ok(c.cuCtxSetCurrent(context))
fill = random.Random(1)
for i in range(max(1, int(float(sys.argv[1]) * 8))):
    at = ctypes.c_uint64()
    ok(c.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)))
    ok(c.cuMemcpyHtoD_v2(at, fill.randbytes(size), ctypes.c_size_t(size)))
    pieces.append(at)
kept = [fill.randbytes(size) for _ in range(int(float(sys.argv[2]) * 8))]
ok(c.cuCtxSynchronize())
pathlib.Path(sys.argv[3]).write_text("")
sys.stdin.readline()
word, words = ctypes.c_uint64(), []
for at in pieces:
    ok(c.cuMemcpyDtoH_v2(ctypes.byref(word), ctypes.c_uint64(at.value + size // 2), ctypes.c_size_t(8)))
    words.append(word.value)
print(hash(tuple(words)), sum(k[-1] for k in kept), flush=True)
sys.stdin.read()
"""


class Bench:
    def __init__(self, options, home, program, server):
        self.home, self.server, self.options = home, server, options
        self.address = f"127.0.0.1:{server.port}"
        self.env = dict(os.environ, XDG_DATA_HOME=str(home), PATH=f"{pathlib.Path(program).parent}:{os.environ['PATH']}",
                        CRICKET_RESUME=KEEP)
        self.answer = None

    def program(self, ready):
        return [sys.executable, "-c", PROGRAM, str(self.options.gb), str(self.options.host_gb), str(ready)]

    def start(self, *words):
        process = subprocess.Popen([CRICKET, "run", *words], env=self.env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdin.write("\n")
        process.stdin.flush()
        return process

    def seconds(self, *starts):
        """Until the last of the programs has answered."""
        begin = time.monotonic()
        processes = [self.start(*words) for words in starts]
        answers = {process.stdout.readline() for process in processes}
        seconds = time.monotonic() - begin
        for process in processes:
            process.communicate()
        self.answer = self.answer or next(iter(answers))
        if answers != {self.answer} or not self.answer.strip():
            sys.exit(f"other answers: {answers}, not {self.answer!r}\n" + (self.server.home / "log").read_text()[-3000:])
        return seconds

    def snapshot(self):
        ready = self.home / "ready"
        ready.unlink(missing_ok=True)
        subprocess.run([CRICKET, "snapshots", "rm", "bench"], env=self.env, stderr=subprocess.DEVNULL, check=False)
        done = subprocess.run([CRICKET, "snapshot", "bench", "-s", self.address, "--at", f"file:{ready}", "--", *self.program(ready)],
                              env=self.env, text=True, stderr=subprocess.PIPE, check=False)
        found = re.search(r"(\d+) MiB of the program, (\d+) MiB of its session, in ([\d.]+) s", done.stderr)
        if not found:
            sys.exit(done.stderr + (self.server.home / "log").read_text()[-3000:])
        return float(found[3]), int(found[1]), int(found[2])

    def run(self):
        turns = range(self.options.turns)
        cold = [self.seconds(["-s", self.address, "--", *self.program(self.home / "cold")]) for _ in turns]
        written = [self.snapshot() for _ in turns]
        copy = [self.seconds(["--from", "bench"]) for _ in turns]
        copies = [self.seconds(*[["--from", "bench"]] * self.options.copies) for _ in turns]
        size = {"gb": self.options.gb, "host_gb": self.options.host_gb}
        row("cold", **size, s=round(statistics.median(cold), 2))
        row("snapshot", **size, s=statistics.median(w[0] for w in written), program_mib=written[0][1], session_mib=written[0][2])
        row("copy", **size, s=round(statistics.median(copy), 2))
        row("copies", **size, copies=self.options.copies, s=round(statistics.median(copies), 2))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", default="cuda")
    parser.add_argument("--gb", type=float, default=2)
    parser.add_argument("--host-gb", type=float, default=0.5)
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    program, obstacle = criu()
    if obstacle:
        row("snapshot", refused=obstacle)
        return 1
    home = pathlib.Path(tempfile.mkdtemp(dir="/var/tmp"))
    server = Server(options.driver, "--keep", KEEP, "--criu", program)
    try:
        Bench(options, home, program, server).run()
    finally:
        server.end()
        shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
