"""tests/e2e/bend.py - runs a command, and disturbs the connection to it; for test_move.py and test_move_memory.py.

    bend.py COMMAND [--cut BYTES] [--until WORD] [--last WORD] [--flip BYTES] [--wait BYTES FILE]... [--old]

cuts it after BYTES towards the command, when the command says WORD, or before a WORD towards it; changes the byte there; waits there until FILE exists (it makes
FILE.reached); makes the command one of an older release, which knows only the first format.
"""
import argparse
import contextlib
import os
import pathlib
import subprocess
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("command")
parser.add_argument("--cut", type=int, default=-1)
parser.add_argument("--until", default="")
parser.add_argument("--last", default="")
parser.add_argument("--flip", type=int, default=-1)
parser.add_argument("--wait", nargs=2, action="append", default=[])
parser.add_argument("--old", action="store_true")
options = parser.parse_args()
process = subprocess.Popen(["sh", "-c", options.command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def cut():
    os._exit(1)


def wait(file):
    pathlib.Path(f"{file}.reached").touch()
    while not os.path.exists(file):
        time.sleep(0.02)


def forward():
    at = 0
    waits = {int(place): file for place, file in options.wait}
    places = sorted(place for place in (options.cut, options.flip, *waits) if place >= 0)
    while True:
        while places and places[0] <= at:
            places.pop(0)
        try:
            data = bytearray(os.read(0, min([65536, *[place - at for place in places]])))
        except ConnectionResetError:    # the other end has closed it, and has not read all
            break
        if not data:
            break
        if at - 1 < options.flip <= at + len(data) - 1:
            data[options.flip - at] ^= 1
        if options.last and options.last.encode() in data:
            cut()
        process.stdin.write(data)
        process.stdin.flush()
        at += len(data)
        if at == options.cut:
            cut()
        if at in waits:
            wait(waits[at])
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()


threading.Thread(target=forward, daemon=True).start()
while True:
    said = os.read(process.stdout.fileno(), 65536)
    if options.until and options.until.encode() in said:
        cut()
    if not said:
        break
    os.write(1, said.replace(b'"newest"', b'"ignore"') if options.old else said)
process.wait()
